"""A workspace of plain streams is added, tested and listed by the doors of every other workspace."""

from pathlib import Path

import pytest

from recovery.models import Workspace
from recovery.people.roles import Role
from tests.unit.people.run import run_json, token_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> str:
    return token_of("ada", Role.ADMIN)


def test_it_has_neither_address_nor_token_and_its_folders_are_tested(
    monkeypatch: pytest.MonkeyPatch, admin: str, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    code, told = run_json(
        monkeypatch, admin, "workspace", "add", "eu", "--kind", "streams", "--event-log", str(events), "--root",
        str(tmp_path), "--environment", "staging",
    )  # fmt: skip
    assert code == 0, told
    row = Workspace.objects.get()
    assert (row.kind, row.url, row.event_logs, row.roots) == ("streams", "", [str(events)], [str(tmp_path)])
    assert (told["workspace"]["kind"], told["workspace"]["event_logs"]) == ("streams", [str(events)])
    code, told = run_json(monkeypatch, admin, "workspace", "test", "eu")
    results = {q["question"]: q["result"] for q in told["test"]["questions"]}
    assert (code, results) == (1, {"event_logs": "holds", "checkpoints": "unknown", "spark": "fails"})
    events.rmdir()
    _, told = run_json(monkeypatch, admin, "workspace", "test", "eu")
    assert told["test"]["questions"][0]["result"] == "fails"
    code, _ = run_json(monkeypatch, admin, "workspace", "change", "eu", "--event-log", "")
    assert (code, Workspace.objects.get().event_logs) == (0, [])
    assert run_json(monkeypatch, admin, "workspace", "remove", "eu")[0] == 0


@pytest.mark.parametrize("more", [("--url", "https://a.example"), ("--secret", "env:REPRISE_WORKSPACE_X")])
def test_an_address_or_a_token_is_refused_for_it(
    monkeypatch: pytest.MonkeyPatch, admin: str, more: tuple[str, ...]
) -> None:
    code, told = run_json(monkeypatch, admin, "workspace", "add", "eu", "--kind", "streams", *more)
    assert (code, told["error"]["code"]) == (2, "workspace_kind")


def test_pipelines_still_need_both(monkeypatch: pytest.MonkeyPatch, admin: str) -> None:
    for more in ((), ("--url", "https://a.example"), ("--secret", "env:REPRISE_WORKSPACE_X")):
        code, told = run_json(monkeypatch, admin, "workspace", "add", "eu", *more)
        assert (code, told["error"]["code"]) == (2, "no_token")
