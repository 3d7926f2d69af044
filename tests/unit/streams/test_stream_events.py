"""Events of a run say what happened, and a failure is an error."""

import re

import pytest

from console.presenters.events import of_flow
from recovery.eventlogs.values import Run
from recovery.streams.updates import StreamUpdate, events_of

BATCHES = ({"batchId": 7, "numInputRows": 1200, "timestamp": "2026-11-27T10:00:00.000Z"}, {"batchId": 8})


RUN = Run("q-1", "r-1", batches=BATCHES)


def rows_of(state: str, failure: str = "") -> list[tuple[str, str, str]]:
    """Type, level and words of each row on the flow's page."""
    update = StreamUpdate("u-1", state, 1_000, 2_000, RUN, failure)
    rows = of_flow(events_of(update, pipeline_id="p", flow="orders", dataset="`/out`"), "orders")
    return [(row.type, row.level, row.says) for row in rows]


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CANCELED", "RUNNING"])
def test_no_event_is_without_words(state: str) -> None:
    assert all(says for _, _, says in rows_of(state, "It broke."))


def test_a_batch_names_its_number_and_its_input_rows() -> None:
    says = [words for kind, _, words in rows_of("COMPLETED") if kind == "stream_progress"]
    assert [re.findall(r"[\d,]*\d", words) for words in says] == [["7", "1,200"], ["8"]]


@pytest.mark.parametrize(("state", "errors"), [("FAILED", 2), ("COMPLETED", 0), ("CANCELED", 0)])
def test_the_end_of_a_run_that_failed_is_an_error(state: str, errors: int) -> None:
    assert [level for _, level, _ in rows_of(state, "It broke.")].count("ERROR") == errors
