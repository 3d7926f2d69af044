"""What is kept of a pipeline's updates is read as values, of rows of before too."""

from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.updates import NO_PART, FlowInUpdate, FlowOutcome, LostRows, SinkMemory

KEPT = {"outcome": "ok", "at": "2026-11-23T00:00:00+00:00", "status": "COMPLETED", "wrote": True}


@pytest.mark.parametrize("kept", [KEPT, {**KEPT, "went_on": False}], ids=["triggered", "continuous"])
def test_a_flow_in_an_update_is_written_as_it_was_kept(kept: dict[str, Any]) -> None:
    flow = FlowInUpdate.read({"update_id": "u-1", "flows": {"c.s.f": kept}}, "c.s.f")
    assert (flow.outcome, flow.wrote) == (FlowOutcome.OK, True)
    assert flow.as_json() == kept


@pytest.mark.parametrize(
    "update",
    [{}, {"flows": None}, {"flows": {}}, {"flows": {"c.s.g": KEPT}}, {"flows": {"c.s.f": {}}}],
    ids=str,
)
def test_an_update_that_holds_nothing_of_a_flow_did_nothing_for_it(update: dict[str, Any]) -> None:
    assert FlowInUpdate.read(update, "c.s.f") == NO_PART


def test_an_update_that_an_older_release_kept_tells_what_it_noted() -> None:
    flow = FlowInUpdate.read({"flows": {"c.s.f": {"outcome": "failed", "at": ""}}}, "c.s.f")
    assert (flow.outcome, flow.status, flow.wrote, flow.went_on) == (FlowOutcome.FAILED, "", False, None)


def test_what_is_remembered_of_a_table_is_written_as_it_was_kept() -> None:
    kept = {
        "newest": {"FileSink[/t]": 7},
        "update": "u-1",
        "at": "2026-11-27T22:00:00+00:00",
        "loss": {"condition": "SINK_PASSED_OVER", "since": "", "update": "u-0", "settled_by": None},
        "inputs": {},
        "queries": {},
        "read_again": {"since": "2026-11-27T21:00:00+00:00", "update": "u-0", "is_straight": True},
        "left": {
            "DeltaSink[/t]": {
                "loss": None,
                "read_again": {"since": "", "update": "u-0", "is_straight": False},
            }
        },
    }
    memory = codec.read(SinkMemory, kept)
    assert memory.loss is not None
    assert (memory.loss.condition, memory.is_empty) == (LostRows.PASSED_OVER, False)
    assert codec.to_json(memory) == kept


def test_a_row_without_memory_remembers_nothing() -> None:
    assert codec.read(SinkMemory, {}).is_empty
