"""What is recommended hangs on whether the change was meant, and on what the place lets one do."""

import pytest

from recovery.contracts import codec
from recovery.contracts.diagnosis import Diagnosis, Storage
from recovery.contracts.names import ChangeIntent, Strategy
from recovery.diagnosis import diagnose_failure
from recovery.diagnosis.advice import asks_meant, recommend_advice
from recovery.diagnosis.healthy import diagnose_healthy
from recovery.diagnosis.platforms import MANAGED_EMPTY, PlatformSupport, WrittenKind
from recovery.diagnosis.row import DELETE, EMPTY
from recovery.diagnosis.table import ROWS
from tests.unit.diagnosis.messages import INCIDENT
from tests.unit.diagnosis.test_judgement import HEALTHY

MANAGED = PlatformSupport(Storage.MANAGED, pipeline_id="77a1", flow="customers_incremental_flow")


@pytest.mark.parametrize(
    ("meant", "strategy"),
    [(ChangeIntent.YES, "continue"), (ChangeIntent.NO, "revert"), (ChangeIntent.UNKNOWN, None), (None, None)],
)
def test_a_step_that_was_taken_out_is_dropped_or_put_back_as_it_was_meant(
    meant: ChangeIntent | None, strategy: str | None
) -> None:
    advice = diagnose_failure(causes=INCIDENT, report=HEALTHY).advice
    assert asks_meant(advice)
    one = recommend_advice(advice, meant)
    assert (one.strategy if one else None) == strategy


def test_a_step_that_was_added_or_replaced_is_not_continued_without_its_state() -> None:
    added = INCIDENT.replace("[(OperatorId: 0 -> OperatorName: dedupe)]", "[]").replace(
        "batch: []", "batch: [(OperatorId: 0 -> OperatorName: dedupe)]"
    )
    advice = diagnose_failure(causes=added, report=None).advice
    one = recommend_advice(advice, ChangeIntent.YES)
    assert one is not None
    assert one.strategy == "rebuild"
    assert "continue" not in {a.strategy for a in advice}


def test_what_cannot_be_undone_is_told_and_never_the_first_answer() -> None:
    advice = diagnose_failure(causes=INCIDENT, report=HEALTHY).advice
    assert [a.strategy for a in advice if a.undoable is False] == ["full-refresh"]
    assert all(one is None or one.undoable for one in (recommend_advice(advice, m) for m in ChangeIntent))


def test_where_nothing_hangs_on_the_change_the_first_is_recommended_without_a_question() -> None:
    advice = diagnose_failure(causes="[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] x", report=None).advice
    assert not asks_meant(advice)
    assert recommend_advice(advice, None) == advice[0]


def test_a_diagnosis_of_before_is_shown_and_recommends_nothing() -> None:
    stored = {"do": ["If the step was taken out by mistake, put it back.", "Else continue."]}
    advice = codec.read(Diagnosis, stored).advice
    assert len(advice) == 2
    assert not asks_meant(advice)
    assert recommend_advice(advice, ChangeIntent.YES) is None


def test_a_workspace_that_manages_checkpoints_is_advised_by_its_own_way() -> None:
    found = diagnose_failure(causes=INCIDENT, report=None, where=MANAGED)
    advice = found.advice
    assert not any(a.strategy for a in advice), "no plan can be made from here"
    reset = recommend_advice(advice, ChangeIntent.YES)
    assert reset is not None
    assert '{"reset_checkpoint_selection": ["customers_incremental_flow"]}' in reset.says
    assert "/api/2.0/pipelines/77a1/updates" in reset.says
    back = recommend_advice(advice, ChangeIntent.NO)
    assert (back and back.undoable, reset.undoable) == (True, False)
    assert not {EMPTY, DELETE} & set(found.dont)
    assert MANAGED_EMPTY in found.dont


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.code)
def test_no_row_tells_a_managed_workspace_to_touch_a_checkpoint(row: object) -> None:
    from recovery.diagnosis.platforms import fit_advice
    from recovery.diagnosis.row import RESET_NO, ErrorRow

    assert isinstance(row, ErrorRow)

    class Judged:
        advice = row.list_advice()
        dont = list(row.dont)

    judged = Judged()
    fit_advice(judged, row, MANAGED)
    assert not any(a.strategy for a in judged.advice)
    assert row.reset == RESET_NO or judged.advice != row.list_advice()
    assert DELETE not in judged.dont


@pytest.mark.parametrize("sink", [WrittenKind.FILES, WrittenKind.DELTA, WrittenKind.OTHER])
def test_what_an_empty_checkpoint_does_is_told_of_this_sink(sink: WrittenKind) -> None:
    found = diagnose_failure(causes=INCIDENT, report=HEALTHY, where=PlatformSupport(sink=sink))
    assert EMPTY not in found.dont
    assert len(found.dont) == len(diagnose_failure(causes=INCIDENT, report=HEALTHY).dont)


def test_a_plain_stream_that_is_well_is_pointed_to_no_way_that_it_lacks() -> None:
    ways = {a.strategy for a in diagnose_healthy(state="ok", storage=Storage.REACHABLE, program=True).advice}
    assert ways == {Strategy.CONTINUE, ""}
    of_flow = diagnose_healthy(state="ok", storage=Storage.REACHABLE)
    assert [a.strategy for a in of_flow.advice] == [
        Strategy.TOP_UP, Strategy.DEDUPLICATE, Strategy.REPLAY, Strategy.FULL_REFRESH,
    ]  # fmt: skip
