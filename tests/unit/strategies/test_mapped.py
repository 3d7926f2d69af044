"""Sources added, dropped or in another order: who goes on as whom, what is asked first, what is lost."""

import json
from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.report import Finding, Severity, SourceProgress
from recovery.contracts import codec
from recovery.contracts.option import BlockerCode, Option
from recovery.contracts.readers import NO_READER, SourceReader
from recovery.contracts.steps import SeedArgs
from recovery.sources.base import Distance, SourceFacts
from recovery.strategies.base import Counts, Facts
from recovery.strategies.catalogue import judge_all
from tests.unit.strategies.streams import of, source, start, stream

ORDERS, RETURNS = '{"orders":{"0":10}}', '{"returns":{"0":20}}'


def progress(index: int, line: str) -> SourceProgress:
    return SourceProgress(index, "kafka", line, position=json.loads(line))


def reader(topic: str) -> dict[str, Any]:
    return SourceReader("kafka", options={"Subscribe": topic})


def at(index: int, line: str | None, **more: Any) -> SourceFacts:
    """A source of the new code; None: nothing was read of it."""
    place = replace(
        source("kafka").position, source=index, offset_json=line, label=line or "nothing read yet"
    )
    return source("kafka", position=place, facts=None, location="returns", **more)


def mapped(held: list[str], topics: list[str], told: list[SourceFacts], **changes: Any) -> Facts:
    base = stream()
    code = replace(base.new_code, sources=tuple(reader(t) for t in topics))
    report = replace(base.checkpoint, sources=tuple(progress(n, line) for n, line in enumerate(held)))
    return replace(base, checkpoint=report, new_code=code, code=code, sources=tuple(told), **changes)


def judged(given: Facts) -> Option:
    return next(o for o in judge_all(given) if o.strategy == "continue")


def starts(option: Option) -> list[tuple[int, int | None, str | None]]:
    (seed,) = [s for s in option.steps if s.kind == "seed"]
    return [(s.index, s.old, s.offset_json) for s in seed.args_as(SeedArgs).starts or ()]


def added(**more: Any) -> Facts:
    told = [at(0, ORDERS), at(1, None, **more)]
    return mapped([ORDERS], ["orders", "returns"], told, source_map=(0, None))


def test_a_source_that_was_added_has_no_start_until_one_is_chosen() -> None:
    option = judged(added())
    assert "Choose where source 1 (returns) begins." in (option.blocked or "")
    assert option.mapping is not None
    assert [pair.new for pair in option.mapping.pairs] == ["0"]
    json.dumps(codec.to_json(option))


def test_a_source_that_was_added_begins_where_it_was_chosen_and_loses_nothing() -> None:
    chosen = replace(start("5", lost=of(5)), offset_json=RETURNS)
    option = judged(added(start=chosen))
    assert option.blocked is None
    assert starts(option) == [(0, 0, ORDERS), (1, None, RETURNS)]
    assert (option.forecast.lost.rows, option.forecast.doubled.rows) == (0, 0)
    assert option.recommended
    assert "SOURCE_ADDED" in [f.code for f in option.findings]


def dropped(unread: Distance | None, *confirmed: str) -> Facts:
    known = {} if unread is None else {1: unread}
    return mapped(
        [ORDERS, RETURNS],
        ["orders"],
        [at(0, ORDERS)],
        source_map=(0,),
        confirmed=confirmed,
        unread_of=known,
    )


def test_a_source_that_was_dropped_has_to_be_confirmed_with_what_waits_there() -> None:
    reason = judged(dropped(of(7))).blocked or ""
    assert reason.startswith("Confirm first which sources are which: 1->.")
    assert "7 rows that wait there are never read" in reason


@pytest.mark.parametrize(
    ("unread", "rows", "recommended"), [(of(7), 7, False), (None, None, False), (of(0), 0, True)]
)
def test_unread_rows_of_a_dropped_source_are_lost(
    unread: Distance | None, rows: int | None, recommended: bool
) -> None:
    option = judged(dropped(unread, "1->"))
    assert option.blocked is None
    assert starts(option) == [(0, 0, ORDERS)]
    assert (option.forecast.lost.rows, option.forecast.lost.exact) == (rows, rows == 0)
    assert option.recommended == recommended


def test_unread_rows_of_a_dropped_source_are_those_that_the_old_code_would_have_written() -> None:
    """It leaves out 3 of the 7 that lie there, or takes 3 for repeats of each other; others it may know already."""
    given = replace(dropped(of(7), "1->"), yields_of={1: 4})
    assert given.old_code is not None
    for operators, exact in (((), True), (("dedupe",), False)):
        told = replace(given, old_code=replace(given.old_code, operators=operators))
        lost = judged(told).forecast.lost
        assert (lost.rows, lost.exact) == (4, exact)


def test_sources_that_changed_places_keep_their_positions() -> None:
    told = [at(0, RETURNS), at(1, ORDERS)]
    option = judged(mapped([ORDERS, RETURNS], ["returns", "orders"], told, source_map=(1, 0)))
    assert option.blocked is None
    assert starts(option) == [(0, 1, RETURNS), (1, 0, ORDERS)]
    assert "SOURCES_MOVED" in [f.code for f in option.findings]
    assert option.recommended
    expected = {c.code: codec.to_json(c.expected) for c in option.criteria}
    assert expected["FIRST_BATCH_AT_POSITION"]["offsets"] == [RETURNS, ORDERS]


def test_a_likely_pair_is_asked_for_and_goes_on_when_it_is_confirmed() -> None:
    """The topic list grew, and another source came."""
    told = [at(0, ORDERS), at(1, None, start=replace(start("1"), offset_json=RETURNS))]
    given = mapped([ORDERS], ["orders,more", "returns"], told, source_map=(0, None))
    reason = judged(given).blocked or ""
    assert "0->0" in reason
    assert "Does more, orders continue what was read of orders?" in reason
    assert judged(replace(given, confirmed=("0->0",))).blocked is None


def test_nothing_can_be_proposed_for_sources_of_which_nothing_is_known() -> None:
    given = mapped([ORDERS], ["orders", "returns"], [at(0, ORDERS)])
    unknown = replace(given.new_code, sources=(NO_READER, NO_READER))
    reason = judged(replace(given, new_code=unknown)).blocked or ""
    assert "The checkpoint has 1 source, the code has 2: their positions cannot be carried over" in reason


def test_counted_rows_of_a_new_source_are_not_taken_for_lost_ones() -> None:
    """Rows before the start of a new source are in the count of what is skipped, and nobody lost them."""
    chosen = replace(start("5", lost=of(5)), offset_json=RETURNS)
    told = [at(0, ORDERS, start=start("13", lost=of(3))), at(1, None, start=chosen)]
    given = mapped([ORDERS], ["orders", "returns"], told, source_map=(0, None))
    lost = judged(replace(given, counts=Counts(table=10, waiting=2, skipped=8))).forecast.lost
    assert (lost.rows, lost.exact) == (3, False)


def test_facts_of_another_pairing_start_nothing() -> None:
    """Else a source that goes on would be read from its beginning."""
    told = [at(0, RETURNS), at(1, ORDERS)]
    given = mapped([ORDERS, RETURNS], ["returns", "orders"], told, source_map=(None, 0))
    assert "seen otherwise" in (judged(given).blocked or "")


def test_sources_that_damage_hides_are_no_other_sources() -> None:
    damage = Finding("OFFSETS_MISSING", Severity.BLOCKER, "offsets/2 is missing.", "Restore it.")
    given = mapped([], ["orders"], [])
    given = replace(given, checkpoint=replace(given.checkpoint, findings=(damage,)))
    blocker = judged(given).blocker
    assert blocker is not None
    assert blocker.code is BlockerCode.CHECKPOINT_DAMAGED
    assert blocker.says.endswith("offsets/2 is missing. Restore it.")


def test_one_to_one_has_no_mapping() -> None:
    option = judged(stream())
    assert option.mapping is None
    assert option.mapping is None
    assert option.forecast.lost.exact
