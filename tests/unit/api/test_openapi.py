"""The document of the JSON API says what each act takes: the very fields that the act itself knows."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from console.api import fields
from console.api.base import acts_of
from console.api.openapi import TAKES, build_document, show_document
from console.api.urls import ROUTES
from tests.unit.api.test_recoveries import Caller, caller

__all__ = ["caller"]
pytestmark = pytest.mark.django_db
ACTS = [
    (route, method, act) for route in ROUTES for method, act in acts_of(route) if act is not show_document
]


class Known(Exception):
    """The fields that an act takes."""


@pytest.mark.parametrize(("route", "method", "act"), ACTS)
def test_what_the_document_says_is_what_the_act_takes(
    monkeypatch: pytest.MonkeyPatch, route: Any, method: str, act: Any
) -> None:
    def only(body: Mapping[str, Any], known: Collection[str]) -> None:
        raise Known(*known)

    monkeypatch.setattr(fields, "allow_only", only)
    named = dict.fromkeys(route.pattern.converters, "x")
    with pytest.raises(Known) as told:
        act({}, None, **named)
    assert set(told.value.args) == set(TAKES.get(act, {}))


def test_every_address_is_in_the_document_and_nothing_without_a_token(caller: Caller) -> None:
    status, found = caller.call("GET", "openapi.json")
    assert (status, found) == (200, build_document(ROUTES))
    assert sum(map(len, found["paths"].values())) == len(ACTS) + 1
    assert caller.call("GET", "openapi.json", Authorization="")[0] == 401
