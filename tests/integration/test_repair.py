"""Damaged checkpoints of a real pipeline, mended by `recover --strategy repair`: every row once, state kept."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.incident.making import Incident, put_files, run_update
from tests.damages.hands import remove, write
from tests.integration.test_first_recovery import checkpoint, held, recover, tree, wanted
from tests.stack import Stack

pytestmark = pytest.mark.spark


def damaged(stack: Stack, name: str, damage: Callable[[Path], object]) -> tuple[Incident, Path]:
    """A pipeline whose code is good again and whose checkpoint is damaged; a repeat waits among the new files."""
    incident = stack.incident(name)
    stack.client.import_file(incident.source, incident.good_code.encode(), overwrite=True)
    first = incident.arrivals.waiting[0]
    repeat = incident.arrivals.processed()[0]
    put_files((type(first)(first.folder, "repeat-0001.json", (repeat,)),), incident.base)
    place = checkpoint(stack, incident)
    damage(place)
    return incident, place


def repaired(stack: Stack, incident: Incident, place: Path) -> dict[str, Any]:
    """Recover by repair, and check what every repair must hold."""
    before = tree(place)
    code, answer = recover(stack, incident, "--strategy", "repair")
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert held(stack, incident) == wanted(incident), "the repeat came in, or a row is lost or doubled"
    assert all(c["ok"] is True for c in answer["verification"])
    forecast = answer["forecast"]
    assert [forecast[k]["rows"] for k in ("lost", "doubled", "reread")] == [0, 0, 0]
    assert forecast["new_rows"] == answer["measured"]["new_rows"] == 8
    assert tree(place) == before, "the old version was touched"
    assert (place.with_name("1") / "state").is_dir(), "the state was not kept"
    return answer


def test_a_lost_metadata_file_is_mended_and_dropped_repeats_stay_dropped(stack: Stack) -> None:
    incident, place = damaged(stack, "noid", lambda c: remove(c / "metadata"))
    state, why = run_update(stack.client, incident.pipeline_id)
    assert (state, "MISSING_METADATA_FILE" in why) == ("FAILED", True), why
    repaired(stack, incident, place)


def test_a_lost_offset_file_of_the_last_batch_is_rebuilt(stack: Stack) -> None:
    incident, place = damaged(stack, "nooffset", lambda c: remove(c / "offsets/2"))
    state, why = run_update(stack.client, incident.pipeline_id)
    assert (state, "Previous batch 2 not found" in why) == ("FAILED", True), why
    repaired(stack, incident, place)
    state, why = run_update(stack.client, incident.pipeline_id)
    assert state == "COMPLETED", why
    assert held(stack, incident) == wanted(incident)


def test_a_log_entry_that_names_no_file_is_inferred_and_is_never_proven(stack: Stack) -> None:
    """Spark would run without an error and read those files again."""
    incident, _ = damaged(stack, "noentry", lambda c: write(c / "sources/0/1", "v1"))
    accepted = ("--accept-loss", "--accept-repeats")
    code, answer = recover(stack, incident, "--strategy", "repair", *accepted)
    assert (code, answer["state"]) == (1, "needs_attention"), answer
    assert held(stack, incident) == wanted(incident)
    assert [c["code"] for c in answer["verification"] if c["ok"] is not True] == ["EVERY_ROW_ONCE"]
    assert answer["forecast"]["lost"]["rows"] is None


def test_damage_that_cannot_be_mended_blocks_repair_with_the_reason(stack: Stack) -> None:
    incident, place = damaged(stack, "nostate", lambda c: remove(c / "state/0/1"))
    before = tree(place)
    code, out, _ = stack.manage(
        "plan", incident.name, "--flow", incident.flow, "--strategy", "repair", "--json", token="responder"
    )
    assert code == 1
    assert "partition 1 is missing" in json.loads(out)["error"]["says"]
    assert tree(place) == before
    assert not place.with_name("1").exists()


def test_continue_goes_on_after_a_batch_that_only_the_table_has_finished(stack: Stack) -> None:
    """As after a crash between the table's log and the commit file: the batch's rows are neither lost nor doubled."""
    incident = stack.incident("halfdone")
    place = checkpoint(stack, incident)
    for name in ("offsets/3", "sources/0/3", "commits/2"):
        remove(place / name)
    code, answer = recover(stack, incident)
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert held(stack, incident) == wanted(incident)
    assert answer["forecast"]["new_rows"] == answer["measured"]["new_rows"] == 8
    assert "The table holds batch 2 already" in answer["forecast"]["reread"]["why"]
