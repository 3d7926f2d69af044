"""Repeats of a key that is known: forecast where the code keeps them, and held to in the proof."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.option import Option
from recovery.sinks.base import SinkReport
from recovery.strategies.base import Facts, KeyKind
from recovery.strategies.common import REPEATED_WORDS, SINK_WORDS, WORDS
from tests.unit.strategies.facts import checkpoint, facts
from tests.unit.strategies.test_sources_and_sinks import options

KEY = ("customer_id",)


def taken_out(**counts: Any) -> Facts:
    """dropDuplicates was taken out, and its key is known; 8 rows wait, 21 in all."""
    base = facts()
    code = replace(base.new_code, key=KEY, key_kind=KeyKind.OLD_CODE)
    told = {"fresh_waiting": 8, "repeats_everything": 1, **counts}
    return replace(base, new_code=code, counts=replace(base.counts, **told), drops_dedupe=True)


def expected(option: Option, code: str) -> Any:
    return next((codec.to_json(c.expected) for c in option.criteria if c.code == code), None)


@pytest.mark.parametrize(
    ("strategy", "counts", "rows", "bound"),
    [
        ("continue", {}, 0, Bound.EXACT),
        ("continue", {"fresh_waiting": 6}, 2, Bound.EXACT),
        ("continue", {"fresh_waiting": None}, 0, Bound.AT_LEAST),
        ("full-refresh", {}, 1, Bound.EXACT),
        ("full-refresh", {"repeats_everything": 3}, 3, Bound.EXACT),
        ("full-refresh", {"repeats_everything": None}, 1, Bound.AT_LEAST),
    ],
)
def test_repeats_that_the_code_keeps_are_forecast_as_doubled_and_accepted_by_the_plan(
    strategy: str, counts: dict[str, Any], rows: int, bound: Bound
) -> None:
    option = options(taken_out(**counts))[strategy]
    doubled = option.forecast.doubled
    assert (doubled.rows, doubled.bound) == (rows, bound)
    assert expected(option, "NO_KEY_TWICE") == {
        "key": list(KEY), "accepted": {"rows": rows, "bound": bound.value}
    }  # fmt: skip


UNKEYED: dict[str, Any] = {"key": (), "key_kind": KeyKind.WHOLE_ROW}
PLACES = [
    ("a table whose rows do not have the key", SinkReport("delta", "/t", None), UNKEYED, Bound.AT_LEAST),
    ("a topic", SinkReport("kafka", "topic out", None, declared="kafka"), {}, Bound.AT_LEAST),
    ("a topic, without a key", SinkReport("kafka", "topic out", None, declared="kafka"), UNKEYED, Bound.AT_LEAST),
    ("a table by its path alone", SinkReport("delta", "/t", None, declared="delta"), {}, Bound.AT_LEAST),
    ("a function", SinkReport("foreach_batch", "/t", None, by_function=True), {}, Bound.AT_LEAST),
    ("memory, console", SinkReport("unknown", "", None, declared="memory"), {}, Bound.AT_LEAST),
    ("a sink that is not known", SinkReport("unknown", "/t", None), {}, Bound.AT_LEAST),
    ("a table that is asked by key", SinkReport("delta", "/t", None), {}, Bound.EXACT),
]  # fmt: skip


@pytest.mark.parametrize(("sink", "key", "bound"), [p[1:] for p in PLACES], ids=[p[0] for p in PLACES])
def test_repeats_that_a_dropduplicates_stopped_are_no_exact_zero_where_they_cannot_be_asked_for_by_key(
    sink: SinkReport, key: dict[str, Any], bound: Bound
) -> None:
    base = replace(taken_out(), checkpoint=checkpoint(last_planned=2))
    there = replace(base, sink=sink, new_code=replace(base.new_code, **key))
    doubled = options(there)["continue"].forecast.doubled
    assert (doubled.rows, doubled.bound) == (None if bound is Bound.UNKNOWN else 0, bound)
    never_had_one = options(replace(there, drops_dedupe=False))["continue"].forecast.doubled
    assert never_had_one.bound in (Bound.EXACT, Bound.AT_MOST, Bound.UNKNOWN)


@pytest.mark.parametrize(
    ("strategy", "sink", "rows", "bound"),
    [
        ("empty", SinkReport("delta", "/t", None), 13, Bound.AT_LEAST),
        ("empty", SinkReport("kafka", "topic out", None, declared="kafka"), 13, Bound.ESTIMATE),
        ("full-refresh", SinkReport("delta", "/t", None), 1, Bound.AT_LEAST),
        ("full-refresh", SinkReport("kafka", "topic out", None, declared="kafka"), 13, Bound.ESTIMATE),
    ],
)
def test_where_all_is_read_again_repeats_that_cannot_be_counted_come_on_top(
    strategy: str, sink: SinkReport, rows: int, bound: Bound
) -> None:
    base = replace(taken_out(), checkpoint=checkpoint(last_planned=2))
    unkeyed = replace(base, sink=sink, new_code=replace(base.new_code, **UNKEYED))
    doubled = options(unkeyed)[strategy].forecast.doubled
    assert (doubled.rows, doubled.bound) == (rows, bound)


@pytest.mark.parametrize(
    ("counts", "lost"),
    [
        ({}, (0, Bound.EXACT)),
        ({"beyond": 0, "table_keys": 12}, (0, Bound.EXACT)),
        ({"beyond": 3, "table_keys": 12}, (3, Bound.EXACT)),
        ({"beyond": 3, "table_keys": 11}, (3, Bound.AT_LEAST)),
        ({"beyond": 3, "table_keys": 12, "processed": 10}, (3, Bound.EXACT)),
        ({"beyond": 1, "table_keys": 11, "processed": 10}, (2, Bound.AT_LEAST)),
    ],
    ids=[
        "not compared by key", "each key comes back", "three keys do not, and others come",
        "and a key is there twice", "three keys do not, and one other comes", "a key and a repeat",
    ],
)  # fmt: skip
def test_a_full_refresh_loses_the_rows_whose_key_the_code_yields_no_more_though_as_many_others_come(
    counts: dict[str, Any], lost: tuple[int, Bound]
) -> None:
    found = options(taken_out(**counts))["full-refresh"].forecast.lost
    assert (found.rows, found.bound) == lost


def test_rows_are_compared_in_every_column_where_the_key_is_of_a_step_that_is_gone() -> None:
    found = options(taken_out())
    assert expected(found["continue"], "EVERY_ROW_ONCE")["whole_rows"] is True
    assert "whole_rows" not in expected(found["revert"], "EVERY_ROW_ONCE")
    assert "whole_rows" not in expected(options(facts())["continue"], "EVERY_ROW_ONCE")


def test_without_a_key_no_key_is_looked_for_and_an_emptied_table_has_no_rows_of_before() -> None:
    found = options(facts())
    assert expected(found["continue"], "NO_KEY_TWICE") is None
    assert expected(found["continue"], "ROWS_OF_BEFORE_UNTOUCHED") == {"rows": 12}
    assert expected(found["full-refresh"], "ROWS_OF_BEFORE_UNTOUCHED") is None
    assert expected(found["revert"], "NO_KEY_TWICE") is not None, "its code has dropDuplicates"


def test_a_key_that_a_person_named_beside_another_dropduplicates_promises_nothing() -> None:
    base = taken_out()
    assert base.old_code is not None
    named = replace(base.old_code, key=("name",), key_kind=KeyKind.NAMED)
    accepted = expected(options(replace(base, old_code=named))["revert"], "NO_KEY_TWICE")["accepted"]
    assert accepted == {"rows": None, "bound": "unknown"}


def test_a_topic_has_no_keys_and_no_rows_of_before_to_look_at() -> None:
    sink = SinkReport("kafka", "topic out", None, declared="kafka")
    option = options(replace(taken_out(fresh_waiting=6), sink=sink))["continue"]
    assert {c.code for c in option.criteria}.isdisjoint({"NO_KEY_TWICE", "ROWS_OF_BEFORE_UNTOUCHED"})
    assert next(c.says for c in option.criteria if c.code == "EVERY_ROW_ONCE") == SINK_WORDS["EVERY_ROW_ONCE"]
    assert set(WORDS) >= {"NO_KEY_TWICE", "ROWS_OF_BEFORE_UNTOUCHED"}


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"fresh_waiting": 8}, WORDS["NO_KEY_TWICE"]),
        ({"fresh_waiting": 6}, REPEATED_WORDS[Bound.EXACT]),
        ({"fresh_waiting": None}, REPEATED_WORDS[Bound.AT_LEAST]),
    ],
)
def test_the_criterion_asks_in_words_for_what_it_measures(counts: dict[str, Any], words: str) -> None:
    """An exact number of repeats is held to as it is, a bound as a bound; a number that is open holds nothing."""
    option = options(taken_out(**counts))["continue"]
    assert next(c.says for c in option.criteria if c.code == "NO_KEY_TWICE") == words


def test_each_kind_of_number_has_its_words() -> None:
    assert set(REPEATED_WORDS) == set(Bound)
    assert len({REPEATED_WORDS[b] for b in (Bound.EXACT, Bound.AT_MOST, Bound.UNKNOWN)}) == 3
