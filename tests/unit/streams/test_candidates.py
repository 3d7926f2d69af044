"""Every stream below some folders is found, matched with its event log by query id, and adopted once."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from recovery.models import AuditEntry, Flow, Stream, Workspace
from recovery.people.roles import Role
from recovery.streams import finding
from recovery.streams.finding import find_checkpoints
from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs
from tests.unit.people.run import run_json, token_of

pytestmark = pytest.mark.django_db
QUERIES = [f"3c8f6a10-52de-4b7e-9d41-a7c0e2b95f{n:02}" for n in range(10)]
RUNS = [f"0d9d2f6e-8a3b-4a55-9c1c-5f0b7c2f9a{n:02}" for n in range(10)]


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_HOME = tmp_path / "home"


@pytest.fixture
def responder() -> str:
    return token_of("rita", Role.RESPONDER)


def made(place: Path, query: str) -> Path:
    return Built(place, query_id=query).write().root


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """Three streams, one of them two folders down, beside what is none."""
    root = tmp_path / "data" / "checkpoints"
    for name, query in (("orders", QUERIES[0]), ("eu/returns/_checkpoint", QUERIES[1]), ("idle", QUERIES[2])):
        made(root / name, query)
    made(root / "pipeline" / "flow" / "0", QUERIES[3])
    made(root / ".hidden", QUERIES[4])
    made(root / "table" / "day=1" / "x", QUERIES[5])
    (root / "table" / "_delta_log").mkdir()
    (root / "plain" / "metadata").mkdir(parents=True)
    return root


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A log each of two of the streams, and of one whose checkpoint is elsewhere."""
    folder = tmp_path / "data" / "events"
    folder.mkdir(parents=True)
    for number, query in enumerate((QUERIES[0], QUERIES[1], QUERIES[9])):
        failure = logs.FAILURE if number == 0 else None
        told = [
            *logs.started(f"app-{number}"), logs.query_started(query, RUNS[number], f"shop-{number}"),
            logs.terminated(failure, query=query, run=RUNS[number]), logs.ended(),
        ]  # fmt: skip
        (folder / f"app-{number}").write_bytes(b"".join(told))
    return folder


def adopt(patch: pytest.MonkeyPatch, token: str, *words: str) -> tuple[int, dict[str, Any]]:
    return run_json(patch, token, "adopt", *words)


def test_a_dry_list_names_each_stream_with_its_state_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, events: Path
) -> None:
    code, told = adopt(monkeypatch, responder, "--roots", str(roots), "--event-log", str(events), "--list")
    rows = {s["query_id"]: (s["name"], s["state"], s["application"], s["skip"]) for s in told["streams"]}
    assert (code, rows) == (0, {
        QUERIES[0]: ("shop-0", "failed", "app-0", None),
        QUERIES[1]: ("shop-1", "ended", "app-1", None),
        QUERIES[2]: ("idle", "unknown", None, None),
    })  # fmt: skip
    assert (told["adopted"], told["logs"], told["queries_without_checkpoint"]) == (0, 3, 1)
    assert (told["versioned"], told["is_whole"], told["problems"]) == (1, True, [])
    assert not Stream.objects.exists()
    assert not Workspace.objects.exists()


def test_all_are_adopted_by_the_door_of_one_and_none_twice(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, events: Path
) -> None:
    words = ("--roots", str(roots), "--event-log", str(events))
    code, told = adopt(monkeypatch, responder, *words)
    assert (code, told["found"], told["adopted"], told["refused"]) == (0, 3, 3, [])
    assert {f.name: f.state for f in Flow.objects.all()} == {
        "shop-0": "failed", "shop-1": "ok", "idle": "unknown",
    }  # fmt: skip
    assert AuditEntry.objects.filter(action="stream.adopt", outcome="done", actor="rita").count() == 3
    code, again = adopt(monkeypatch, responder, *words)
    assert (code, again["found"], again["adopted"]) == (0, 3, 0)
    assert {s["skip"] for s in again["streams"]} == {"adopted"}
    assert Stream.objects.count() == 3
    made(roots / "new", QUERIES[6])
    _, later = adopt(monkeypatch, responder, *words)
    assert (later["found"], later["adopted"]) == (4, 1)


def test_a_query_id_in_two_folders_is_adopted_only_where_the_log_names_the_folder(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, events: Path
) -> None:
    shutil.copytree(roots / "idle", roots / "idle-copy")
    shutil.copytree(roots / "orders", roots / "orders-copy")
    plan = logs.batch_plan(RUNS[0], f"file:{roots}/orders")
    lines = (events / "app-0").read_bytes().splitlines(keepends=True)
    (events / "app-0").write_bytes(b"".join([*lines[:4], plan, *lines[4:]]))
    _, told = adopt(monkeypatch, responder, "--roots", str(roots), "--event-log", str(events))
    skips = {Path(s["checkpoint"]).name: s["skip"] for s in told["streams"]}
    assert skips == {
        "orders": None, "orders-copy": "query_id_shared", "_checkpoint": None,
        "idle": "query_id_shared", "idle-copy": "query_id_shared",
    }  # fmt: skip
    assert told["adopted"] == 2


def test_two_of_one_name_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, responder: str, tmp_path: Path
) -> None:
    for n, area in enumerate(("eu", "us")):
        made(tmp_path / "data" / area / "orders", QUERIES[n])
    _, told = adopt(monkeypatch, responder, "--roots", str(tmp_path / "data"))
    assert {s["name"] for s in told["streams"]} == {"orders eu orders", "orders us orders"}
    assert told["adopted"] == 2


def test_a_root_that_cannot_be_read_is_named_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path
) -> None:
    code, told = adopt(monkeypatch, responder, "--roots", "/nowhere/at/all", "/etc", str(roots), "--list")
    assert (code, told["found"]) == (0, 3)
    assert {p["place"]: p["code"] for p in told["problems"]} == {
        "/nowhere/at/all": "unreachable", "/etc": "storage_hidden",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("/a", "--roots", "/b"), 2),
        (("/a", "--list"), 2),
        (("--roots", "/b", "--sink", "/c"), 2),
        (("--roots", "relative"), 2),
        (("--roots", "/b", "--event-log", "/nowhere"), 2),
    ],
)
def test_what_does_not_fit_together_is_refused(
    monkeypatch: pytest.MonkeyPatch, responder: str, words: tuple[str, ...], code: int
) -> None:
    assert adopt(monkeypatch, responder, *words)[0] == code


def test_who_may_not_adopt_one_may_not_look_for_many(monkeypatch: pytest.MonkeyPatch, roots: Path) -> None:
    code, told = adopt(monkeypatch, token_of("vic", Role.VIEWER), "--roots", str(roots), "--list")
    assert (code, told["error"]["code"]) == (1, "denied")


def test_the_search_is_bounded_and_says_so(roots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_checkpoints([str(roots)]).is_whole
    monkeypatch.setattr(finding, "DEEPEST", 1)
    shallow = find_checkpoints([str(roots)])
    assert (len(shallow.checkpoints), shallow.is_whole) == (2, False)
    monkeypatch.setattr(finding, "MOST_FOLDERS", 2)
    assert not find_checkpoints([str(roots)]).is_whole
