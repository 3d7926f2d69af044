"""Each wrong thing gets one clear sentence, its exit code, and changes nothing."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.incident.making import Incident
from tests.integration.test_first_recovery import checkpoint, held, place, recover, tree, wanted
from tests.stack import Stack, wait_for

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def incident(stack: Stack) -> Incident:
    """One failed pipeline for all refusals: none of them may change it."""
    return stack.incident("wrong")


@pytest.fixture(scope="module")
def healthy(stack: Stack) -> Incident:
    return stack.incident("healthy", fail=False, batches=2)


@pytest.fixture(scope="module")
def struck(stack: Stack) -> Incident:
    """One for the refusals that come when a part of the instance is away: they run at the end, alone."""
    return stack.incident("struck")


@contextlib.contextmanager
def unchanged(stack: Stack, incident: Incident) -> Iterator[None]:
    """Checkpoint, table and source are the same afterwards, to the byte."""

    def everything() -> tuple[Any, ...]:
        flow = checkpoint(stack, incident).parent
        return tree(flow), tree(place(stack, incident)), stack.client.export(incident.source)

    before = everything()
    yield
    assert everything() == before


@pytest.fixture
def untouched(stack: Stack, incident: Incident) -> Iterator[None]:
    with unchanged(stack, incident):
        yield


def refused(
    stack: Stack,
    *arguments: str,
    code: int,
    token: str | None = "responder",
    alone: bool = False,
    **more: str,
) -> str:
    """The one sentence of a refusal, after checking exit code and that stderr says the same."""
    got, out, err = stack.manage(*arguments, "--json", token=token, alone=alone, **more)
    assert got == code, (got, out, err)
    says: str = json.loads(out)["error"]["says"]
    assert says in err
    assert "Traceback" not in err
    return says


def audited(stack: Stack) -> list[dict[str, Any]]:
    code, out, err = stack.manage("audit", "export", "--json", token="auditor")
    assert code == 0, err
    found = json.loads(out)
    entries: list[dict[str, Any]] = found["entries"] if isinstance(found, dict) else found
    return entries


def of_flow(stack: Stack, incident: Incident) -> set[tuple[str, str, str]]:
    """(action, outcome, actor) of what was tried on a flow: other tests write into the same log."""
    return {(e["action"], e["outcome"], e["actor"]) for e in audited(stack) if e["target"] == incident.flow}


def test_an_unknown_pipeline(stack: Stack) -> None:
    assert "nosuch" in refused(stack, "recover", "nosuch", code=2, alone=True)


def test_an_unknown_flow(stack: Stack, incident: Incident) -> None:
    assert "nosuch" in refused(stack, "plan", incident.name, "--flow", "nosuch", code=2)


def test_a_healthy_flow_is_left_alone(stack: Stack, healthy: Incident) -> None:
    says = refused(stack, "recover", healthy.name, "--flow", healthy.flow, code=1)
    assert "healthy" in says
    assert ("recovery.open", "failed", "responder") in of_flow(stack, healthy)


def test_two_pipelines_of_one_name(stack: Stack, incident: Incident) -> None:
    spec = stack.client.get_pipeline(incident.pipeline_id)["spec"]
    twin = {k: v for k, v in spec.items() if k not in ("id", "storage")} | {"allow_duplicate_names": True}
    other = stack.client.create_pipeline(twin)
    try:
        says = refused(stack, "plan", incident.name, "--flow", incident.flow, code=2)
        assert other in says
        assert incident.pipeline_id in says
    finally:
        stack.client.delete_pipeline(other)
        stack.manage("flows", "--fresh", token="responder")  # a poll in between has listed it


@pytest.mark.usefixtures("untouched")
def test_a_pipeline_that_was_only_validated_takes_no_table_with_it(stack: Stack, incident: Incident) -> None:
    """Validation uses a scratch pipeline over the same tables: deleting it once dropped the real ones."""
    spec = stack.client.get_pipeline(incident.pipeline_id)["spec"]
    scratch = stack.client.create_pipeline(
        {k: v for k, v in spec.items() if k not in ("id", "storage")} | {"name": "scratch"}
    )
    update = stack.client.start_update(scratch, validate_only=True)
    wait_for(
        lambda: stack.client.get_update(scratch, update)["state"] in ("COMPLETED", "FAILED"), "the dry run"
    )
    stack.client.delete_pipeline(scratch, cascade=True)
    assert place(stack, incident).exists()
    assert held(stack, incident)


@pytest.mark.usefixtures("untouched")
class TestTheFailedFlowStaysAsItIs:
    def test_a_viewer_may_not_reset(self, stack: Stack, incident: Incident) -> None:
        last = audited(stack)[-1]["seq"]
        says = refused(stack, "recover", incident.name, "--flow", incident.flow, code=1, token="viewer")
        assert "viewer" in says
        since = [(e["outcome"], e["actor"]) for e in audited(stack) if e["seq"] > last]
        assert ("denied", "viewer") in since

    def test_a_wrong_token(self, stack: Stack, incident: Incident) -> None:
        last = audited(stack)[-1]["seq"]
        refused(stack, "recover", incident.name, code=1, token="rp_nobody-has-this-one")
        assert any(e["action"] == "token.refused" for e in audited(stack) if e["seq"] > last)

    def test_no_token(self, stack: Stack, incident: Incident) -> None:
        assert "REPRISE_TOKEN" in refused(stack, "recover", incident.name, code=2, token=None)

    def test_a_strategy_that_would_lose_rows(self, stack: Stack, incident: Incident) -> None:
        says = refused(stack, "plan", incident.name, "--flow", incident.flow, "--strategy", "empty", code=1)
        assert "lose 8 rows" in says

    def test_a_strategy_that_does_not_exist(self, stack: Stack, incident: Incident) -> None:
        refused(stack, "plan", incident.name, "--flow", incident.flow, "--strategy", "magic", code=2)

    def test_a_position_that_loses_rows(self, stack: Stack, incident: Incident) -> None:
        says = refused(
            stack, "plan", incident.name, "--flow", incident.flow, "--position", "0=latest", code=1
        )
        assert "Source 0: 8 rows, 3 files never read" in says

    def test_a_position_that_is_none(self, stack: Stack, incident: Incident) -> None:
        refused(stack, "plan", incident.name, "--flow", incident.flow, "--position", "0=tomorrow", code=2)

    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            ("import functions as F", "import functions as F\ndef (", "does not parse"),
            ('.load(f"{BASE}/changes")', '.load(f"{BASE}/changes").select("nosuch")', "nosuch"),
            (
                '.load(f"{BASE}/changes")',
                '.load(f"{BASE}/changes").dropDuplicates(["customer_id", "sequence_num"])',
                "revert",
            ),
        ],
    )
    def test_code_that_cannot_go_on(
        self, stack: Stack, incident: Incident, tmp_path: Path, old: str, new: str, words: str
    ) -> None:
        changed = incident.failing_code.replace(old, new)
        assert changed != incident.failing_code
        (tmp_path / f"{incident.name}.py").write_text(changed)
        flow = ("--flow", incident.flow)
        assert words in refused(stack, "recover", incident.name, *flow, "--code", str(tmp_path), code=1)

    def test_a_diff_that_does_not_apply(self, stack: Stack, incident: Incident, tmp_path: Path) -> None:
        diff = tmp_path / "change.diff"
        diff.write_text(f"--- a{incident.source}\n+++ b{incident.source}\n@@ -1,1 +1,1 @@\n-nothing\n+else\n")
        flow = ("--flow", incident.flow)
        assert "does not apply" in refused(stack, "plan", incident.name, *flow, "--patch", str(diff), code=2)

    def test_the_broker_is_dead(self, stack: Stack, incident: Incident) -> None:
        nobody = f"redis+socket://{stack.home}/no-broker.sock?virtual_host=0"
        recovery = json.loads(
            stack.manage("plan", incident.name, "--flow", incident.flow, "--json", token="responder")[1]
        )["recovery"]
        try:
            assert "broker" in refused(stack, "execute", recovery, code=2, REPRISE_BROKER_URL=nobody)
        finally:
            assert stack.manage("cancel", recovery, token="responder")[0] == 0

    def test_the_storage_is_away(self, stack: Stack, incident: Incident) -> None:
        storage = stack.home / "storage" / incident.pipeline_id
        away = storage.with_name("away")
        storage.rename(away)
        try:
            says = refused(stack, "recover", incident.name, "--flow", incident.flow, code=2)
            assert "does not exist" in says
        finally:
            away.rename(storage)

    def test_a_second_recovery_of_the_same_flow(self, stack: Stack, incident: Incident) -> None:
        code, out, _ = stack.manage(
            "plan", incident.name, "--flow", incident.flow, "--json", token="responder"
        )
        first = json.loads(out)["recovery"]
        assert code == 0
        try:
            says = refused(stack, "recover", incident.name, "--flow", incident.flow, code=1)
            assert first in says
        finally:
            assert stack.manage("cancel", first, token="responder")[0] == 0

    def test_an_expired_token(self, stack: Stack, incident: Incident) -> None:
        code, out, err = stack.manage("token", "--name", "short", "--days", "1", "--json", token="responder")
        assert code == 0, err
        text = json.loads(out)["token"]
        stack.execute("UPDATE recovery_token SET expires_at = '2001-01-01' WHERE name = 'short'")
        assert "expired" in refused(stack, "recover", incident.name, code=1, token=text)


@pytest.mark.alone
def test_spark_is_dead(stack: Stack, struck: Incident) -> None:
    """The console asks for what only Spark can tell where nothing answers."""
    change = "UPDATE recovery_workspace SET questions_url = '{}'"
    with unchanged(stack, struck):
        stack.execute(change.format("http://127.0.0.1:1"))
        try:
            assert "questions service" in refused(
                stack, "recover", struck.name, "--flow", struck.flow, code=2
            )
        finally:
            stack.execute(change.format(stack.demo["pipelines_url"]))


@pytest.mark.alone
def test_the_database_is_locked(stack: Stack, struck: Incident) -> None:
    """A step of somebody else's recovery would find its heartbeat refused."""
    flow = ("--flow", struck.flow)
    with unchanged(stack, struck):
        with stack.locked() as patience:
            says = refused(stack, "recover", struck.name, *flow, code=2, **patience)
        assert "locked" in says


STALE = ["code", "checkpoint", "sink"]


@pytest.mark.parametrize("moved", STALE)
def test_a_stale_plan_is_void_and_says_what_moved(stack: Stack, moved: str) -> None:
    incident = stack.incident(f"stale_{moved}")
    code, out, err = stack.manage("plan", incident.name, "--flow", incident.flow, "--json", token="responder")
    assert code == 0, err
    recovery = json.loads(out)["recovery"]
    words = _move(stack, incident, moved)
    before = tree(checkpoint(stack, incident).parent)
    code, out, _ = stack.manage("execute", recovery, "--wait", "--json", token="responder")
    answer = json.loads(out)
    assert (code, answer["state"]) == (1, "diagnosing"), answer
    assert words in answer["reason"]
    assert tree(checkpoint(stack, incident).parent) == before
    code, out, _ = stack.manage("execute", recovery, "--json", token="responder")
    assert code == 1, "a void plan stays void"


def _move(stack: Stack, incident: Incident, what: str) -> str:
    if what == "code":
        stack.client.import_file(incident.source, incident.failing_code.encode() + b"\n# edited\n")
        return "was edited since"
    if what == "checkpoint":
        stack.client.import_file(incident.source, incident.good_code.encode())
        run(stack, incident)
        stack.client.import_file(incident.source, incident.failing_code.encode())
        return "Batch 3"
    log = place(stack, incident) / "_spark_metadata"
    shutil.copy(log / "2", log / "3")
    return "ends at batch 3"


def run(stack: Stack, incident: Incident) -> None:
    from console.incident.making import run_update

    state, why = run_update(stack.client, incident.pipeline_id)
    assert state == "COMPLETED", why


def test_a_checkpoint_damaged_beyond_mending_here_is_left_alone(stack: Stack) -> None:
    incident = stack.incident("damaged")
    (checkpoint(stack, incident) / "sources" / "0" / "2").write_bytes(b"v1")
    before = tree(checkpoint(stack, incident).parent)
    says = refused(stack, "recover", incident.name, "--flow", incident.flow, code=1)
    assert "Log entry 2 of source 0 names no file" in says
    assert tree(checkpoint(stack, incident).parent) == before


def test_after_all_refusals_the_flow_can_still_be_recovered(stack: Stack, incident: Incident) -> None:
    assert recover(stack, incident)[0] == 0
    assert held(stack, incident) == wanted(incident)
