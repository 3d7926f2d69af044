"""Every stream below some folders is found, matched with its event log by query id, and adopted once."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.models import AuditEntry, Flow, Person, RoleIn, Stream, Workspace
from recovery.people.roles import Role
from recovery.streams import actions, candidates, finding
from recovery.streams.actions import choose_name
from recovery.streams.finding import find_checkpoints
from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs
from tests.unit.people.run import run, run_json, token_of

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


def test_a_query_without_a_checkpoint_is_named_with_its_application(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, events: Path
) -> None:
    asked = ("adopt", "--roots", str(roots), "--event-log", str(events), "--list")
    said = run(monkeypatch, responder, *asked)[1]
    (line,) = [line for line in said.splitlines() if QUERIES[9] in line]
    assert line.split()[1:] == ["shop-2", "ended", "app-2"]
    assert not [other for other in said.splitlines() if QUERIES[0] in other]


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


def test_a_log_names_a_folder_also_by_a_link_that_leads_to_it(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, events: Path, tmp_path: Path
) -> None:
    shutil.copytree(roots / "orders", tmp_path / "data" / "orders-copy")
    linked = tmp_path / "data" / "linked"
    linked.symlink_to(roots / "orders")
    plan = logs.batch_plan(RUNS[0], f"file:{linked}")
    lines = (events / "app-0").read_bytes().splitlines(keepends=True)
    (events / "app-0").write_bytes(b"".join([*lines[:4], plan, *lines[4:]]))
    folders = (str(roots / "orders"), str(tmp_path / "data" / "orders-copy"))
    _, told = adopt(monkeypatch, responder, "--roots", *folders, "--event-log", str(events), "--list")
    skips = {Path(s["checkpoint"]).name: s["skip"] for s in told["streams"]}
    assert skips == {"orders": None, "orders-copy": "query_id_shared"}


def test_each_of_two_folders_of_a_query_id_is_adopted_by_its_own_run(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, events: Path
) -> None:
    shutil.copytree(roots / "orders", roots / "orders-copy")
    for name, run_id, folder in (("app-0", RUNS[0], "orders"), ("app-9", RUNS[9], "orders-copy")):
        failure = logs.FAILURE if folder == "orders" else None
        lines = [
            *logs.started(name), logs.query_started(QUERIES[0], run_id, folder),
            logs.batch_plan(run_id, f"file:{roots}/{folder}"),
            logs.terminated(failure, query=QUERIES[0], run=run_id), logs.ended(),
        ]  # fmt: skip
        (events / name).write_bytes(b"".join(lines))
    _, told = adopt(monkeypatch, responder, "--roots", str(roots), "--event-log", str(events), "--list")
    rows = {Path(s["checkpoint"]).name: (s["skip"], s["state"]) for s in told["streams"]}
    assert rows["orders"] == (None, "failed")
    assert rows["orders-copy"] == (None, "ended")


def test_a_folder_that_an_earlier_run_names_is_adopted_where_the_newest_one_had_no_batch(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, events: Path
) -> None:
    shutil.copytree(roots / "orders", roots / "orders-copy")
    lines = [
        *logs.started("app-0"), logs.query_started(QUERIES[0], RUNS[0]),
        logs.batch_plan(RUNS[0], f"file:{roots}/orders"), logs.terminated(None, query=QUERIES[0], run=RUNS[0]),
        logs.query_started(QUERIES[0], RUNS[9]),
        logs.terminated(logs.FAILURE, query=QUERIES[0], run=RUNS[9]), logs.ended(),
    ]  # fmt: skip
    (events / "app-0").write_bytes(b"".join(lines))
    _, told = adopt(monkeypatch, responder, "--roots", str(roots), "--event-log", str(events), "--list")
    rows = {Path(s["checkpoint"]).name: (s["skip"], s["state"]) for s in told["streams"]}
    assert rows["orders"] == (None, "failed")
    assert rows["orders-copy"][0] == "query_id_shared"


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


def test_no_more_are_adopted_at_once_than_the_setting_allows(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, events: Path, settings: Any
) -> None:
    settings.REPRISE_ADOPT_MOST = 2
    words = ("--roots", str(roots), "--event-log", str(events))
    for listed in (True, False):
        code, first = adopt(monkeypatch, responder, *words, *(["--list"] if listed else []))
        assert (code, first["found"], first["adopted"]) == (0, 3, 0 if listed else 2)
        assert sorted(str(s["skip"]) for s in first["streams"]) == ["None", "None", "over_limit"]
    code, second = adopt(monkeypatch, responder, *words)
    assert (code, second["adopted"], Stream.objects.count()) == (0, 1, 3)
    assert sorted(s["skip"] or "" for s in second["streams"]) == ["", "adopted", "adopted"]


def test_a_folder_that_a_link_leads_to_is_adopted_once_and_keeps_its_name(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, tmp_path: Path
) -> None:
    run_json(monkeypatch, responder, "adopt", str(roots / "orders"), "--name", "shop")
    linked = tmp_path / "data" / "linked"
    linked.symlink_to(roots)
    code, found = adopt(monkeypatch, responder, "--roots", str(linked), str(roots))
    assert (code, found["found"], found["adopted"]) == (0, 3, 2)
    assert {s["query_id"]: s["skip"] for s in found["streams"]} == {
        QUERIES[0]: "adopted", QUERIES[1]: None, QUERIES[2]: None,
    }  # fmt: skip
    assert {flow.name for flow in Flow.objects.all()} == {"shop", "returns", "idle"}


def test_a_copy_of_a_listed_streams_checkpoint_is_not_adopted_beside_it(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, tmp_path: Path
) -> None:
    run_json(monkeypatch, responder, "adopt", str(roots / "orders"))
    shutil.copytree(roots / "orders", tmp_path / "data" / "copies" / "orders")
    code, found = adopt(monkeypatch, responder, "--roots", str(tmp_path / "data" / "copies"))
    assert (code, found["adopted"], found["streams"][0]["skip"]) == (0, 0, "query_id_shared")


def test_each_query_has_the_reason_why_it_was_not_adopted(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path, events: Path
) -> None:
    monkeypatch.setattr(candidates, "adopt_stream", refuse_idle)
    code, found = adopt(monkeypatch, responder, "--roots", str(roots), "--event-log", str(events))
    problems = {s["query_id"]: s["problem"] and s["problem"]["code"] for s in found["streams"]}
    assert (code, problems) == (1, {QUERIES[0]: None, QUERIES[1]: None, QUERIES[2]: "half_swapped"})
    assert [(u["query_id"], u["name"], u["state"], u["application"], u["skip"]) for u in found["unmatched"]] == [
        (QUERIES[9], "shop-2", "ended", "app-2", "no_checkpoint"),
    ]  # fmt: skip


def refuse_idle(*, checkpoint: str, **given: Any) -> Stream:
    if checkpoint.endswith("/idle"):
        raise Refused("Its swap stopped between two renames.", code="half_swapped")
    return actions.adopt_stream(checkpoint=checkpoint, **given)


def test_a_denied_search_is_written_down(monkeypatch: pytest.MonkeyPatch, roots: Path) -> None:
    token = token_of("dev", Role.NONE)
    person = Person.objects.get(user__username="dev")
    RoleIn.objects.create(person=person, environment="development", role=Role.RESPONDER)
    words = ("--roots", str(roots), "--environment", "production", "--list")
    code, found = adopt(monkeypatch, token, *words)
    assert (code, found["error"]["code"]) == (1, "denied")
    entry = AuditEntry.objects.get(action="stream.adopt", outcome="denied", actor="dev")
    assert (entry.environment, entry.target) == ("production", str(roots))


def test_what_somebody_else_adopts_meanwhile_is_not_adopted_twice(
    monkeypatch: pytest.MonkeyPatch, responder: str, roots: Path
) -> None:
    place = str(roots / "orders")
    assert run_json(monkeypatch, responder, "adopt", place)[0] == 0
    find = actions.find_adopted
    answers = iter([None])
    monkeypatch.setattr(actions, "find_adopted", lambda place: next(answers, find(place)))
    code, refused = run_json(monkeypatch, responder, "adopt", place)
    assert (code, refused["error"]["code"]) == (1, "adopted_meanwhile")
    assert Stream.objects.count() == 1


@pytest.mark.parametrize(
    ("query_name", "name"),
    [
        ("orders to lake", "orders to lake"),
        ("", "orders"),
        ("a/b", "orders"),
        ("a`b", "orders"),
        ("x" * 201, "orders"),
    ],
)
def test_a_stream_is_named_as_its_query_where_that_can_be_a_name(query_name: str, name: str) -> None:
    assert choose_name(query_name, "s3://lake/orders/_checkpoint") == name
