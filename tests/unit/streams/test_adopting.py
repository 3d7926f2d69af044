"""A plain stream joins the list by its checkpoint, with what its event log says, for who may and for no other."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from recovery.management.commands import adopt as adopt_command
from recovery.management.commands.adopt import join_arguments
from recovery.models import AuditEntry, Flow, Person, RoleIn, Stream, Workspace
from recovery.people.roles import Role
from recovery.streams import commands
from recovery.workflow import diagnosing, fingerprints
from tests.checkpoint_builder import Built, put, sink_log
from tests.unit.eventlogs import logs
from tests.unit.people.run import run_json, token_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def checkpoint(tmp_path: Path) -> Built:
    return Built(tmp_path / "data" / "orders" / "_checkpoint", query_id=logs.QUERY).write()


@pytest.fixture
def events(checkpoint: Built, tmp_path: Path) -> Path:
    """The log of a program whose query has failed."""
    folder = tmp_path / "data" / "events"
    folder.mkdir(parents=True)
    told = [
        *logs.started(), logs.query_started(), logs.batch_plan(place=f"file:{checkpoint.root}"),
        logs.progress(0), logs.progress(1), logs.terminated(logs.FAILURE), logs.ended(),
    ]  # fmt: skip
    (folder / "local-1.zstd").write_bytes(logs.zstd(told))
    return folder


@pytest.fixture
def responder() -> str:
    return token_of("rita", Role.RESPONDER)


def adopt(patch: pytest.MonkeyPatch, token: str, place: Path, *more: str) -> tuple[int, dict[str, Any]]:
    return run_json(patch, token, "adopt", str(place), *more)


def test_a_checkpoint_alone_is_enough_and_nothing_is_guessed(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, responder: str
) -> None:
    code, told = adopt(monkeypatch, responder, checkpoint.root)
    assert (code, told["flow"], told["state"]) == (0, "orders", "unknown")
    assert (told["environment"], told["query_id"], told["sink"]) == ("production", logs.QUERY, None)
    stream = Stream.objects.get()
    assert (stream.pipeline.pipeline_id, stream.runner) == (told["pipeline"], "by-hand")
    assert AuditEntry.objects.filter(action="stream.adopt", outcome="done", actor="rita").count() == 1
    code, listed = run_json(monkeypatch, responder, "flows")
    assert [(f["flow"], f["state"]) for f in listed["flows"]] == [("orders", "unknown")]


def test_its_event_log_says_that_it_failed_why_and_where_it_writes(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, events: Path, responder: str
) -> None:
    _, told = adopt(monkeypatch, responder, checkpoint.root, "--event-log", str(events), "--name", "shop")
    assert (told["flow"], told["state"], told["sink"]) == ("shop", "failed", "/out")
    flow = Flow.objects.get()
    assert (flow.condition, flow.last_batch, flow.history) == (
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA", 1, ["failed"],
    )  # fmt: skip
    code, found = run_json(monkeypatch, responder, "diagnose", told["pipeline"])
    assert code == 1
    assert found["diagnosis"]["condition"] == flow.condition


def test_what_is_said_later_of_the_same_checkpoint_changes_the_one_stream(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, events: Path, responder: str
) -> None:
    _, first = adopt(monkeypatch, responder, checkpoint.root)
    _, again = adopt(monkeypatch, responder, checkpoint.root, "--event-log", str(events))
    assert again["pipeline"] == first["pipeline"]
    assert (first["state"], again["state"]) == ("unknown", "failed")
    assert Flow.objects.count() == 1


@pytest.mark.parametrize(
    ("later_ms", "state", "condition"), [(0, "ok", ""), (3_600_000, "failed", "SINK_PASSED_OVER")]
)
def test_a_stream_whose_table_has_passed_over_its_batches_is_not_well(
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: Built,
    responder: str,
    tmp_path: Path,
    later_ms: int,
    state: str,
    condition: str,
) -> None:
    """Its checkpoint was emptied before anybody adopted it, and the run after that ended well."""
    table, events = tmp_path / "data" / "table", tmp_path / "data" / "events"
    sink_log(table, checkpoint.batches - 1)
    for offsets in (checkpoint.root / "offsets").glob("[0-9]*"):
        put(offsets, _planned_later(offsets.read_text(), later_ms))
    events.mkdir()
    told = [*logs.started(), logs.query_started(), logs.progress(0), logs.terminated(None), logs.ended()]
    (events / "local-1.zstd").write_bytes(logs.zstd(told))
    more = ("--event-log", str(events), "--sink", str(table))
    _, told_of = adopt(monkeypatch, responder, checkpoint.root, *more)
    flow = Flow.objects.get()
    assert (told_of["state"], flow.state, flow.condition or "") == (state, state, condition)
    code, _ = run_json(monkeypatch, responder, "diagnose", told_of["pipeline"])
    assert code == int(state == "failed")


def _planned_later(offsets: str, by_ms: int) -> str:
    return re.sub(r'"batchTimestampMs":(\d+)', lambda m: f'"batchTimestampMs":{int(m[1]) + by_ms}', offsets)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.APPROVER, Role.AUDITOR])
def test_who_may_not_recover_may_not_adopt(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, role: Role
) -> None:
    code, told = adopt(monkeypatch, token_of("vic", role), checkpoint.root)
    assert (code, told["error"]["code"]) == (1, "denied")
    assert not Stream.objects.exists()


def test_commands_and_weaker_rules_are_an_admins_to_give(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, responder: str
) -> None:
    command = ("--start", "true", "--running", "false")
    for more in (command, ("--environment", "development")):
        code, told = adopt(monkeypatch, responder, checkpoint.root, *more)
        assert (code, told["error"]["code"]) == (1, "denied")
    assert all(
        word in told["error"]["says"] for word in ("development", "production", "--environment", "admin")
    )
    admin = token_of("ada", Role.ADMIN)
    code, told = adopt(monkeypatch, admin, checkpoint.root, *command, "--environment", "development")
    assert (code, told["runner"]) == (0, "command")
    code, again = adopt(monkeypatch, responder, checkpoint.root, "--name", "shop")
    assert (code, again["pipeline"], again["flow"]) == (0, told["pipeline"], "shop")
    assert Stream.objects.get().start == ["true"]


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (("--start", "true"), ["--running"]),
        (("--runner", "command", "--running", "true"), ["--start"]),
        (("--runner", "command"), ["--start", "--running"]),
    ],
)
def test_commands_that_are_missing_are_named_by_their_options(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, given: tuple[str, ...], missing: list[str]
) -> None:
    code, told = adopt(monkeypatch, token_of("ada", Role.ADMIN), checkpoint.root, *given)
    assert (code, told["error"]["code"], told["error"]["flags"]) == (1, "commands_missing", missing)


def test_a_sink_where_nothing_is_is_refused_once_a_batch_is_committed(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, responder: str, tmp_path: Path
) -> None:
    """A typing error; the plan would say much later that the table cannot be read."""
    data = tmp_path / "data"
    code, told = adopt(monkeypatch, responder, checkpoint.root, "--sink", str(data / "ordres"))
    assert (code, told["error"]["code"], told["error"]["flags"]) == (2, "no_sink", ["--sink"])
    (data / "orders").mkdir(exist_ok=True)
    code, told = adopt(monkeypatch, responder, checkpoint.root, "--sink", str(data / "orders"))
    assert (code, told["sink"]) == (0, str(data / "orders"))


def test_the_streams_own_input_is_no_sink(
    monkeypatch: pytest.MonkeyPatch, responder: str, tmp_path: Path
) -> None:
    (tmp_path / "data" / "in0").mkdir(parents=True)
    place = tmp_path / "data" / "orders" / "_checkpoint"
    Built(place, query_id=logs.QUERY, folder=f"{tmp_path}/data/in").write()
    code, told = adopt(monkeypatch, responder, place, "--sink", f"{tmp_path}/data/in0")
    assert (code, told["error"]["code"], told["error"]["flags"]) == (1, "sink_is_source", ["--sink"])


def test_a_stream_that_does_not_fail_is_diagnosed_without_naming_its_one_flow(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, events: Path, responder: str
) -> None:
    (events / "local-1.zstd").write_bytes(
        logs.zstd(
            [*logs.started(), logs.query_started(), logs.progress(0), logs.terminated(None), logs.ended()]
        )
    )
    _, stream = adopt(monkeypatch, responder, checkpoint.root, "--event-log", str(events))
    code, told = run_json(monkeypatch, responder, "diagnose", stream["pipeline"])
    assert (code, told["flow"], told["diagnosis"]) == (0, "orders", None)


@pytest.mark.parametrize("spelled", ["{}", "/{}", "{}/.", "{}/../_checkpoint", "linked"])
def test_a_stream_is_changed_under_its_own_rules_however_its_place_is_spelled(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, tmp_path: Path, responder: str, spelled: str
) -> None:
    adopt(monkeypatch, responder, checkpoint.root)
    workspace = Workspace.objects.get()
    Workspace.objects.create(name="dev", kind="streams", environment="development")
    (tmp_path / "linked").symlink_to(checkpoint.root)
    place = str(tmp_path / "linked") if spelled == "linked" else spelled.format(checkpoint.root)
    code, told = run_json(monkeypatch, responder, "adopt", place, "--workspace", "dev")
    assert (code, told["error"]["code"]) == (1, "adopted_elsewhere")
    code, told = run_json(
        monkeypatch, responder, "adopt", place, "--workspace", workspace.name, "--name", "shop"
    )
    assert (code, told["flow"]) == (0, "shop")
    assert Stream.objects.count() == 1
    elsewhere = token_of("dev", Role.NONE)
    person = Person.objects.get(user__username="dev")
    RoleIn.objects.create(person=person, environment="development", role=Role.RESPONDER)
    code, told = run_json(
        monkeypatch, elsewhere, "adopt", place, "--workspace", "dev", "--environment", "development"
    )
    assert (code, told["error"]["code"]) == (1, "denied")


def test_a_move_to_weaker_rules_waits_as_that_of_a_pipeline_does(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, responder: str
) -> None:
    adopt(monkeypatch, responder, checkpoint.root)
    admin = token_of("ada", Role.ADMIN)
    code, told = adopt(monkeypatch, admin, checkpoint.root, "--environment", "development")
    assert (code, told["environment"]) == (0, "production")
    assert told["moves_to"]["environment"] == "development"
    assert Stream.objects.get().pipeline.wanted_environment == "development"
    assert AuditEntry.objects.filter(action="pipeline.retag", environment="production").exists()


def test_other_commands_are_another_stream_to_a_plan(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built
) -> None:
    admin = token_of("ada", Role.ADMIN)
    marks = []
    for start in ("true", "touch x"):
        adopt(monkeypatch, admin, checkpoint.root, "--start", start, "--running", "false")
        marks.append(fingerprints.of_settings(Stream.objects.get().pipeline.spec))
    assert [part for part in marks[0] if marks[0][part] != marks[1][part]] == ["configuration"]


def test_a_program_is_a_python_file_and_of_nobody_elses_stream(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, tmp_path: Path, responder: str
) -> None:
    secret = tmp_path / "data" / "logins.env"
    secret.write_text("password=x")
    (tmp_path / "data" / "linked.py").symlink_to(secret)
    for program in (secret, tmp_path / "data" / "linked.py"):
        code, told = adopt(monkeypatch, responder, checkpoint.root, "--program", str(program))
        assert (code, told["error"]["code"]) == (1, "no_python_file")


def test_what_is_no_checkpoint_of_a_plain_stream_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkpoint: Built, responder: str
) -> None:
    (tmp_path / "empty").mkdir()
    code, told = adopt(monkeypatch, responder, tmp_path / "empty")
    assert (code, told["error"]["code"]) == (2, "no_checkpoint")
    checkpoint.root.rename(tmp_path / "0")
    flow = tmp_path / "flow"
    flow.mkdir()
    (tmp_path / "0").rename(flow / "0")
    code, told = adopt(monkeypatch, responder, flow)
    assert (code, told["error"]["code"]) == (1, "not_plain")
    for place in ("relative/place", "/etc", "http://x/y"):
        assert run_json(monkeypatch, responder, "adopt", place)[0] in (1, 2)
    assert not Workspace.objects.exists()


def test_a_command_is_split_as_a_shell_would_and_run_without_one(tmp_path: Path) -> None:
    words = commands.split_command(
        f"{shlex.quote(sys.executable)} -c 'import sys; sys.exit(3)' '; touch x'", "--start"
    )
    assert words[-1] == "; touch x"
    assert commands.is_running(words) is False


@pytest.mark.parametrize("is_linked", [False, True], ids=["its folder", "a link to it"])
def test_a_checkpoint_that_has_lost_its_id_is_adopted_and_may_be_recovered(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, tmp_path: Path, responder: str, is_linked: bool
) -> None:
    """An event log's plan names the place, and so the query."""
    (checkpoint.root / "metadata").unlink()
    named = tmp_path / "data" / "linked" if is_linked else checkpoint.root
    if is_linked:
        named.parent.mkdir(exist_ok=True)
        named.symlink_to(checkpoint.root)
    folder = tmp_path / "data" / "events"
    folder.mkdir(parents=True)
    told = [*logs.started(), logs.query_started(), logs.batch_plan(place=f"file:{named}"), logs.progress(0),
            logs.terminated(None), logs.ended()]  # fmt: skip
    (folder / "local-1").write_bytes(b"".join(told))
    code, answer = adopt(monkeypatch, responder, checkpoint.root, "--event-log", str(folder))
    assert (code, answer["query_id"], answer["state"]) == (0, logs.QUERY, "ok")
    assert diagnosing.may_need_recovery(Flow.objects.get())


def test_a_stream_that_ran_well_needs_no_recovery_and_that_of_no_log_may(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, responder: str
) -> None:
    adopt(monkeypatch, responder, checkpoint.root)
    flow = Flow.objects.get()
    assert diagnosing.may_need_recovery(flow)
    for state, may in (("ok", False), ("running", False), ("stopped", True)):
        flow.state = state
        assert diagnosing.may_need_recovery(flow) is may


@pytest.mark.parametrize(
    ("python", "signs"),
    [
        (sys.executable, []),
        (str(Path(sys.executable).with_name("python3")), []),
        (" ", []),
        ("/opt/spark-3.5/bin/python", ["spark_python_not_used"]),
        ("python3.9", ["spark_python_not_used"]),
    ],
)
def test_another_python_than_that_which_studies_the_program_is_a_sign(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Built, responder: str, python: str, signs: list[str]
) -> None:
    ended, told = adopt(monkeypatch, responder, checkpoint.root, "--spark-python", python)
    assert (ended, [sign["code"] for sign in told["signs"]]) == (0, signs)


@pytest.mark.parametrize(
    ("environments", "taken"),
    [(("development", "production"), 1), (("development", "staging"), 0), ((), None)],
)
def test_questions_about_a_stream_go_to_the_server_of_its_environment(
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: Built,
    responder: str,
    environments: tuple[str, ...],
    taken: int | None,
) -> None:
    urls = [f"http://127.0.0.1:{8100 + n}" for n in range(len(environments))]
    for url, environment in zip(urls, environments, strict=True):
        Workspace.objects.create(name=environment, url=url, questions_url=url, environment=environment)
    adopt(monkeypatch, responder, checkpoint.root)
    asked = Stream.objects.get().pipeline.workspace.questions_url
    assert asked == ("" if taken is None else urls[taken])


def test_an_argument_of_the_program_may_begin_with_dashes_as_the_guide_writes_it() -> None:
    words = ["/data/orders", "--argument", "--env=prod", "--argument", "--once", "--json"]
    read = adopt_command.Command().create_parser("manage.py", "adopt").parse_args(join_arguments(words))
    assert (read.checkpoint, read.argument, read.json) == ("/data/orders", ["--env=prod", "--once"], True)
    assert join_arguments(["--argument"]) == ["--argument"]
