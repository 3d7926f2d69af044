"""How long it is safe to do nothing: by the sources as they were counted, else as the inventory saw them last."""

from typing import Any

import pytest

from recovery.contracts.diagnosis import Advice, Diagnosis
from recovery.contracts.names import ChangeIntent
from recovery.contracts.ways import Readability
from recovery.models import Recovery
from recovery.workflow.ways import (
    ASK_FIRST,
    NONE_FREE,
    NONE_RUNS,
    NOT_AS_ANSWERED,
    NOT_COUNTED,
    SAY_FIRST,
    build_ways,
    find_deadline,
    ways_of,
)
from tests import factories as f

pytestmark = pytest.mark.django_db
UNTIL = 1_795_300_000_000


def place(**changes: Any) -> dict[str, Any]:
    return {**f.position(), **changes}


def reach(readable: bool | None, until_ms: int | None = None) -> dict[str, Any]:
    return {"readable": readable, "why": "", "until_ms": until_ms}


@pytest.mark.parametrize(
    ("places", "readable", "has_end"),
    [
        ([place(reach=reach(True))], Readability.SAFE, False),
        ([place(reach=reach(True, UNTIL)), place(reach=reach(True))], Readability.KEPT, True),
        ([place(reach=reach(True, UNTIL)), place(reach=reach(None))], Readability.UNKNOWN, True),
        ([place(reach=reach(False)), place(reach=reach(True, UNTIL))], Readability.GONE, False),
        ([place(readable={"ok": True, "says": ""})], Readability.SAFE, False),
        # of files that were read some are gone: that tells nothing of those that wait
        ([place(readable={"ok": False, "says": ""})], Readability.UNKNOWN, False),
    ],
)
def test_the_worst_source_decides_and_the_first_end_is_named(
    places: list[dict[str, Any]], readable: Readability, has_end: bool
) -> None:
    found = find_deadline(f.failed_flow(), [f.judged_option("continue", positions=places)])
    assert (found.readable, found.until is not None) == (readable, has_end)


def test_before_anything_is_counted_the_inventory_is_asked() -> None:
    found = find_deadline(f.failed_flow(), ())
    assert (found.readable, found.until) == (Readability.UNKNOWN, None)


def test_a_recovery_without_counted_rows_has_no_option_and_still_says_that_waiting_is_an_answer() -> None:
    found = ways_of(f.opened(f.failed_flow()))
    assert (found.options, found.recommended, found.counted_at) == ((), None, None)
    assert [answer.advised for answer in found.answers] == [False, True]


def test_where_no_change_is_asked_about_nobody_has_to_be_called() -> None:
    flow = f.failed_flow()
    damaged = Diagnosis(advice=(Advice("Mend it."),))
    found = build_ways(flow, f.judged_options(), damaged, None, at=None, recovery=None)
    assert (found.asks_meant, [answer.advised for answer in found.answers]) == (False, [False, False])


def test_the_answer_of_the_recovery_decides_what_is_recommended() -> None:
    recovery = f.at_offset(f.failed_flow())
    Recovery.objects.filter(pk=recovery.pk).update(choices={"meant": ChangeIntent.NO.value})
    recovery.refresh_from_db()
    assert ways_of(recovery).recommended == "revert"


@pytest.mark.parametrize(
    ("strategies", "meant", "because"),
    [
        (("continue", "revert"), None, SAY_FIRST),
        (("continue", "revert"), ChangeIntent.UNKNOWN, ASK_FIRST),
        (("revert",), ChangeIntent.YES, NOT_AS_ANSWERED.format(names="revert")),
        (("continue",), ChangeIntent.NO, NOT_AS_ANSWERED.format(names="continue")),
        ((), ChangeIntent.YES, NOT_COUNTED),
    ],
)
def test_why_nothing_is_recommended_is_true_of_every_strategy_beside_it(
    strategies: tuple[str, ...], meant: ChangeIntent | None, because: str
) -> None:
    options = [f.judged_option(name) for name in strategies]
    asked = f.at_offset(f.failed_flow()).diagnosis_value
    found = build_ways(f.failed_flow(), options, asked, meant, at=None, recovery=None)
    assert (found.recommended, found.because) == (None, because)


def test_a_cost_of_every_strategy_is_why_nothing_is_recommended() -> None:
    costly = f.judged_option("continue", forecast={"lost": f.amount(3, why="Gone.")})
    asked = f.at_offset(f.failed_flow()).diagnosis_value
    found = build_ways(f.failed_flow(), [costly], asked, ChangeIntent.YES, at=None, recovery=None)
    assert (found.recommended, found.because) == (None, NONE_FREE)


def test_nothing_is_said_to_have_a_cost_where_nothing_can_run() -> None:
    barred = f.judged_option("revert", blocked="…", blocker={"code": "old_code_unknown"})
    asked = f.at_offset(f.failed_flow()).diagnosis_value
    found = build_ways(f.failed_flow(), [barred], asked, ChangeIntent.YES, at=None, recovery=None)
    assert (found.recommended, found.because) == (None, NONE_RUNS)
