"""Page sizes and tokens."""

import base64
import json
from typing import Any

import pytest

from recovery.server.paging import Page, page_size, read_page
from recovery.server.problems import ApiProblem
from tests.unit.server.api import Asker


def test_a_token_brings_back_filter_order_and_place_whatever_is_sent_beside_it() -> None:
    first = read_page(size=3, token=None, filter_text="level='ERROR'", order="timestamp asc")
    token = first.token((17, 42))
    second = read_page(size=5, token=token, filter_text="other", order="timestamp desc")
    assert second == Page(5, "level='ERROR'", "timestamp asc", (17, 42))


@pytest.mark.parametrize("token", ["x", "????", "e30", "bnVsbA", "W10"])
def test_a_token_of_somebody_else_is_refused(token: str) -> None:
    with pytest.raises(ApiProblem, match="page token"):
        read_page(size=3, token=token, filter_text="", order="")


@pytest.mark.parametrize(("text", "size"), [(None, 25), ("", 25), ("0", 25), ("1", 1), ("100", 100)])
def test_a_page_has_its_size(text: str | None, size: int) -> None:
    assert page_size(text, default=25, most=100) == size


@pytest.mark.parametrize("text", ["101", "-1", "many", "1.5"])
def test_a_page_size_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(ApiProblem, match="max_results"):
        page_size(text, default=25, most=100)


@pytest.mark.parametrize(
    ("route", "after"),
    [
        ("/pipelines", [5]),
        ("/pipelines", []),
        ("/pipelines/{id}/updates", ["abc"]),
        ("/pipelines/{id}/updates", [10**30]),
        ("/pipelines/{id}/updates", [True]),
        ("/pipelines/{id}/events", [1]),
        ("/pipelines/{id}/events", ["1", "2"]),
        ("/pipelines/{id}/events", [1, {}]),
    ],
)
@pytest.mark.django_db(databases=["default", "pipelines"])
def test_a_token_that_was_made_up_is_refused(asker: Asker, route: str, after: list[Any]) -> None:
    raw = json.dumps({"f": "", "o": "", "a": after}).encode()
    token = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    asked = asker.send("GET", f"{route.format(id=asker.make().id)}?page_token={token}")
    assert (asked.status, asked.code) == (400, "INVALID_PARAMETER_VALUE")
