"""A Pipelines API in this process, and a workspace that is polled there."""

from collections.abc import Iterator

import pytest

from recovery.models import Workspace
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.stub import serving


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def workspace(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    with serving(api) as stub:
        yield Workspace.objects.create(
            name="here", url=stub.url, token_ref="env:INVENTORY_TOKEN", environment="development"
        )
