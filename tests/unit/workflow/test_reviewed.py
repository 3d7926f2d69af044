"""What runs is what was reviewed: code that was changed after the seal is neither started nor called proven."""

import hashlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recovery.contracts.plan import PlanBody
from recovery.contracts.results import BeforeFurther
from recovery.errors import NotFound, Refused
from recovery.eventlogs.values import TIME_ZONE
from recovery.pipelines import itself
from recovery.pipelines.client import PipelinesClient
from recovery.workflow import fingerprints, reviewed
from recovery.workflow.steps import rerun, seed, verify
from recovery.workflow.steps.base import StepWait
from tests.factories.plans import plan_contents
from tests.refusals import refused
from tests.unit.workflow.steps_in_memory import StepInMemory

CODE, HELPER, PUT_BACK = "/p/q.py", "/p/helper.py", "/else/old.py"
OLD, NEW, HELP = b"old = 1\n", b"new = 2\n", b"help = 3\n"


SPEC: dict[str, Any] = {
    "root_path": "/p",
    "libraries": [{"file": {"path": CODE}}],
    "configuration": {"min_amount": "0"},
    "catalog": "c",
    "schema": "s",
    "storage": "/data",
    "continuous": True,
    "name": "orders",
}


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def change(path: str, before: bytes, after: bytes) -> dict[str, str]:
    return {"path": path, "before_sha256": sha(before), "after_sha256": sha(after), "diff": ""}


class Workspace:
    """The API of an idle pipeline whose folder is /p. `ran`: the source that its updates have read."""

    def __init__(self, files: dict[str, bytes], **settings: Any) -> None:
        self.files, self.started = files, list[str]()
        self.ran: dict[str, dict[str, bytes]] = {}
        self.sessions: dict[str, dict[str, str]] = {}
        self.spec = {**SPEC, **settings}

    def get_pipeline(self, _pipeline: str) -> dict[str, Any]:
        return {"spec": self.spec}

    def list_dir(self, root: str) -> list[dict[str, str]]:
        return [{"path": p, "object_type": "FILE"} for p in sorted(self.files) if p.startswith(root + "/")]

    def export(self, path: str) -> bytes:
        if path not in self.files:
            raise NotFound(f"No {path}.")
        return self.files[path]

    def list_updates(self, _pipeline: str, limit: int) -> list[dict[str, str]]:
        return [{"update_id": u} for u in [*reversed(self.started), "u-0"]][:limit]

    def start_update(self, _pipeline: str, **_: Any) -> str:
        self.started.append(f"u-{len(self.started) + 1}")
        self.ran[self.started[-1]] = dict(self.files)
        return self.started[-1]

    def asks_of_people(self, _pipeline: str, _update: str) -> str:
        return ""

    def get_update(self, _pipeline: str, _update: str) -> dict[str, str]:
        return {"state": "COMPLETED"}

    def update_source(self, _pipeline: str, update: str) -> dict[str, bytes] | None:
        return self.ran.get(update)

    def update_row_settings(self, _pipeline: str, update: str) -> dict[str, str] | None:
        return self.sessions.get(update)


def contents(*patch: dict[str, str], settings: dict[str, str] | None = None) -> PlanBody:
    return plan_contents(
        dataset="c.s.t",
        table_place="/t",
        patch=list(patch),
        preconditions={
            "code": {CODE: sha(OLD), HELPER: sha(HELP)},
            "settings": fingerprints.of_settings(SPEC) if settings is None else settings,
        },
    )


PLAIN = SimpleNamespace(pipeline=SimpleNamespace(workspace=SimpleNamespace(has_streams=False)))


def context(client: Workspace, of: PlanBody, **result: Any) -> Any:
    step = StepInMemory(result=dict(result), args={"refresh": ["c.s.t"]})
    return SimpleNamespace(
        step=step, watch=step, contents=of, client=client, pipeline_id="p", flow=PLAIN, held_by="", run_noun="update",
        log=lambda text: None,
    )  # fmt: skip


def updated(standing: Any) -> Any:
    """The update that a rerun waits for."""
    assert rerun.run(standing) == StepWait()
    return standing.step.result["update_id"]


ZONED = {**SPEC, "configuration": {**SPEC["configuration"], TIME_ZONE: "Asia/Tokyo"}}


def test_another_time_zone_is_not_what_was_reviewed() -> None:
    planned, now = fingerprints.of_settings(ZONED), fingerprints.of_settings(SPEC)
    assert [part for part in planned if planned[part] != now[part]] == ["session"]
    client = cast(PipelinesClient, Workspace({CODE: OLD, HELPER: HELP}))
    code = {CODE: OLD.decode(), HELPER: HELP.decode()}
    reviewed.require_unchanged(contents(settings=planned), ZONED, code, client, so="")
    with pytest.raises(Refused) as refusal:
        reviewed.require_unchanged(contents(settings=planned), SPEC, code, client, so="")
    assert refusal.value.code == "not_as_reviewed"


@pytest.mark.parametrize(
    ("sessions", "code"),
    [
        ({}, None),
        ({"u-1": {TIME_ZONE: "Asia/Tokyo"}, "u-2": {TIME_ZONE: "Asia/Tokyo"}}, None),
        ({"u-1": {}, "u-2": {TIME_ZONE: "Asia/Tokyo"}}, "ran_unreviewed"),
    ],
    ids=["not known", "as planned", "one of two runs in UTC"],
)
def test_every_run_of_a_plan_has_the_session_that_was_reviewed(
    sessions: dict[str, dict[str, str]], code: str | None
) -> None:
    there = Workspace({CODE: OLD, HELPER: HELP})
    there.sessions = sessions
    planned = contents(settings=fingerprints.of_settings(ZONED))

    def judge() -> None:
        reviewed.require_reviewed_code_ran(planned, cast(PipelinesClient, there), "p", ["u-1", "u-2"])

    if code is None:
        judge()
        return
    with pytest.raises(Refused) as refusal:
        judge()
    assert refusal.value.code == code


AS_PATCHED = {CODE: NEW, HELPER: HELP}
PATCH = change(CODE, OLD, NEW)


@pytest.mark.parametrize(
    ("patch", "files"),
    [
        ((), {CODE: OLD, HELPER: HELP}),
        ((PATCH,), AS_PATCHED),
        ((change(PUT_BACK, b"", b"back\n"),), {CODE: OLD, HELPER: HELP, PUT_BACK: b"back\n"}),
    ],
    ids=["as sealed", "as patched", "a file put back beside the pipeline's folder"],
)
def test_the_update_starts_on_code_as_it_was_reviewed(patch: Any, files: dict[str, bytes]) -> None:
    there = Workspace(files)
    assert updated(context(there, contents(*patch))) == "u-1"
    assert there.started == ["u-1"]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({CODE: b"edited\n", HELPER: HELP}, "/p/q.py was edited"),
        ({CODE: OLD, HELPER: HELP}, "/p/q.py was edited"),
        ({CODE: NEW, HELPER: b"edited\n"}, "/p/helper.py was edited"),
        ({CODE: NEW}, "/p/helper.py is gone"),
        ({**AS_PATCHED, "/p/more.py": b"x"}, "/p/more.py is new"),
    ],
    ids=["edited after the patch", "patch taken back", "a helper", "one gone", "one new"],
)
def test_code_that_was_changed_after_the_review_is_not_run(files: dict[str, bytes], says: str) -> None:
    there = Workspace(files)
    standing = context(there, contents(PATCH))
    with refused("not_as_reviewed", Refused) as refusal:
        rerun.run(standing)
    assert refusal.value.sentence.startswith(f"{says} ")
    assert (there.started, standing.step.result) == ([], {})

    there.files = dict(AS_PATCHED)
    assert updated(standing) == "u-1"


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"configuration": {"min_amount": "1000"}}, "configuration"),
        ({"catalog": "other"}, "catalog"),
        ({"schema": "other"}, "schema"),
        ({"libraries": [{"file": {"path": CODE}}, {"file": {"path": HELPER}}]}, "list of source files"),
        ({"storage": "/elsewhere"}, "storage location"),
        ({"environment": {"dependencies": ["left-pad"]}}, "Python environment"),
    ],
)
def test_settings_that_were_changed_after_the_review_are_not_run_with(
    changed: dict[str, Any], part: str
) -> None:
    there = Workspace(dict(AS_PATCHED), **changed)
    with refused("not_as_reviewed", Refused, names=(part,)):
        rerun.run(context(there, contents(PATCH)))
    assert there.started == []


@pytest.mark.parametrize(
    "settings",
    [
        {"continuous": False},
        {"configuration": itself.changed(SPEC, itself.RETRIES, {"pause_status": "PAUSED"})["configuration"]},
        {"name": "renamed"},
        {"schema": None, "target": "s"},
        {"environment": {}},
    ],
    ids=[
        "paused by the recovery",
        "retries too",
        "another name",
        "the schema by its old word",
        "said as nothing",
    ],
)
def test_settings_that_no_code_reads_are_no_drift(settings: dict[str, Any]) -> None:
    assert updated(context(Workspace(dict(AS_PATCHED), **settings), contents(PATCH))) == "u-1"


def test_a_file_that_the_pipeline_lists_no_more_is_gone_though_it_lies_there() -> None:
    of = contents(PATCH, settings={})
    there = Workspace(dict(AS_PATCHED), root_path="", libraries=[{"file": {"path": HELPER}}])
    with refused("not_as_reviewed", Refused):
        rerun.run(context(there, of))


def test_a_plan_that_was_sealed_before_settings_were_kept_is_not_held_against_them() -> None:
    of = contents(PATCH, settings={})
    there = Workspace(dict(AS_PATCHED), configuration={"min_amount": "1000"})
    assert updated(context(there, of)) == "u-1"


def test_an_update_that_was_started_already_is_watched_on_whatever_the_code_is_now() -> None:
    there = Workspace(dict(AS_PATCHED))
    there.start_update("p")
    there.files[CODE] = b"edited since\n"
    assert updated(context(there, contents(PATCH), update_id="u-1")) == "u-1"
    assert there.started == ["u-1"]


def looked_at(there: Workspace) -> Any:
    texts = {path: content.decode() for path, content in there.files.items()}
    return SimpleNamespace(code=texts, spec=there.spec, client=there)


@pytest.fixture
def verifying(monkeypatch: pytest.MonkeyPatch) -> Any:
    """verify of a rerun by u-1; beyond the questions about the code it would measure."""

    def run(there: Workspace) -> None:
        steps = [
            SimpleNamespace(kind="rerun", result={"update_id": "u-1"}),
            SimpleNamespace(kind="stop", result={"sink_files": [], "others": {}}),
        ]
        standing = context(there, contents(PATCH))
        standing.plan = None
        standing.recovery = SimpleNamespace(steps=SimpleNamespace(filter=lambda **_: steps))
        monkeypatch.setattr(verify, "read_flow_snapshot", lambda flow, known: looked_at(there))
        verify.run(standing)

    return run


def test_a_verification_over_code_that_was_changed_does_not_measure(verifying: Any) -> None:
    there = Workspace(dict(AS_PATCHED))
    there.start_update("p")
    there.files[CODE] = b"edited since\n"
    with refused("not_as_reviewed", Refused):
        verifying(there)


def test_what_an_update_has_read_of_other_code_is_never_proven(verifying: Any) -> None:
    there = Workspace({**AS_PATCHED, CODE: b"edited for a moment\n"})
    there.start_update("p")
    there.files = dict(AS_PATCHED)
    with refused("ran_unreviewed", Refused):
        verifying(there)


def test_an_update_of_which_no_source_is_kept_says_nothing_of_it() -> None:
    reviewed.require_reviewed_code_ran(contents(PATCH), Workspace({}), "p", ["u-1"])  # type: ignore[arg-type]


def test_the_further_update_does_not_run_changed_code_either() -> None:
    there = Workspace({**AS_PATCHED, CODE: b"edited while it was measured\n"})
    before = BeforeFurther(
        verdict={},
        outcome={},
        below={},
        rows=None,
        listed={},
        version=None,
        files=(),
        ends=None,
        strange=None,
    )
    with refused("not_as_reviewed", Refused):
        verify._start_further(context(there, contents(PATCH)), before)
    assert there.started == []


def test_state_is_not_made_by_changed_code(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Workspace({**AS_PATCHED, CODE: b"edited\n"})
    monkeypatch.setattr(seed, "read_flow_snapshot", lambda flow, known: looked_at(there))
    report: Any = None
    with refused("not_as_reviewed", Refused):
        seed._primed(context(there, contents(PATCH)), report, None)
