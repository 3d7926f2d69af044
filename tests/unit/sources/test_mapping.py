"""Sources that were added, removed, replaced, renamed or moved: who continues whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoints.report import Entries, SourceEntry, SourceProgress
from recovery.contracts.amounts import Amount
from recovery.contracts.readers import SourceReader
from recovery.sources.base import Distance
from recovery.sources.mapping import (
    Certainty,
    NewSource,
    OldSource,
    new_source,
    old_source,
    propose_mapping,
)

WAITS = Distance(rows=Amount(value=7), files=Amount(value=2))


def old(key: str, kind: str, *places: str, name: str | None = None) -> OldSource:
    return OldSource(key, kind, f'"at {key}"', frozenset(places), name, WAITS)


def new(key: str, kind: str, *places: str, name: str | None = None) -> NewSource:
    return NewSource(key, kind, frozenset(places), name)


CASES = {
    "the same source": (
        [old("0", "files", "file:///in")],
        [new("0", "files", "/in/")],
        {"0": "0"},
        Certainty.CERTAIN,
    ),
    "another path below": (
        [old("0", "files", "file:///in/a")],
        [new("0", "files", "/in/*")],
        {"0": "0"},
        Certainty.LIKELY,
    ),
    "one added": (
        [old("0", "kafka", "orders")],
        [new("0", "kafka", "payments"), new("1", "kafka", "orders")],
        {"0": "1"},
        Certainty.CERTAIN,
    ),
    "a topic more": ([old("0", "kafka", "a")], [new("0", "kafka", "a", "b")], {"0": "0"}, Certainty.LIKELY),
    "replaced by another kind": ([old("0", "files", "file:///in")], [new("0", "kafka", "in")], {}, None),
    "replaced by another place": ([old("0", "files", "file:///in")], [new("0", "files", "/out")], {}, None),
    "swapped": (
        [old("0", "files", "file:///a"), old("1", "files", "file:///b")],
        [new("0", "files", "/b"), new("1", "files", "/a")],
        {"0": "1", "1": "0"},
        Certainty.CERTAIN,
    ),
    "a name wins over a place": (
        [old("x", "files", "file:///a", name="x")],
        [new("y", "files", "/a", name="y"), new("x", "files", "/moved", name="x")],
        {"x": "x"},
        Certainty.CERTAIN,
    ),
    "other names are other sources": (
        [old("x", "files", "file:///a", name="x")],
        [new("y", "files", "/a", name="y")],
        {},
        None,
    ),
    "a table known by its id": (
        [old("0", "delta", "7b1e")],
        [new("0", "delta", "7b1e")],
        {"0": "0"},
        Certainty.CERTAIN,
    ),
    "a table known by nothing": (
        [old("0", "iceberg")],
        [new("0", "iceberg", "db.t")],
        {"0": "0"},
        Certainty.LAST_OF_KIND,
    ),
    "two tables known by nothing": (
        [old("0", "iceberg"), old("1", "iceberg")],
        [new("0", "iceberg")],
        {},
        None,
    ),
}


@pytest.mark.parametrize(("before", "after", "pairs", "sure"), CASES.values(), ids=CASES.keys())
def test_who_continues_whom(
    before: list[OldSource], after: list[NewSource], pairs: dict[str, str], sure: Certainty | None
) -> None:
    found = propose_mapping(before, after)
    assert {p.old: p.new for p in found.pairs} == pairs
    assert {p.certainty for p in found.pairs} == ({sure} if sure else set())
    assert all(bool(p.confirm) == (p.certainty is not Certainty.CERTAIN) for p in found.pairs)


def test_a_directory_beside_is_another_place() -> None:
    assert not propose_mapping([old("0", "files", "file:///in")], [new("0", "files", "/inner")]).pairs


def test_a_dropped_source_says_what_is_never_read() -> None:
    found = propose_mapping([old("0", "kafka", "orders")], [])
    assert (
        found.dropped[0].says
        == "No source of the code continues source 0 (orders): 7 rows that wait there are never read."
    )
    unknown = propose_mapping([OldSource("0", "kafka", None)], [])
    assert "not known" in unknown.dropped[0].says


def test_a_change_of_order_is_said() -> None:
    before, after, *_ = CASES["swapped"]
    assert "another order" in propose_mapping(before, after).notes[0]
    assert not propose_mapping(before, [new("0", "files", "/a"), new("1", "files", "/b")]).notes


def test_places_of_a_checkpoint_s_source_are_read_from_it() -> None:
    entries = Entries.from_entries(SourceEntry(f"file:///in/a%20b/{n}.json", 5, n) for n in range(3))
    assert old_source(SourceProgress(0, "files", '{"logOffset":2}', 2, entries)).places == {"file:///in/a b"}
    kafka = SourceProgress(1, "kafka", "{}", position={"orders": {"0": 5}})
    assert old_source(kafka) == OldSource("1", "kafka", "{}", frozenset({"orders"}))
    named = SourceProgress(1, "delta", "{}", name="n", position={"reservoirId": "7b"})
    assert (old_source(named).key, old_source(named).places) == ("n", {"7b"})


kinds = st.sampled_from(["files", "kafka", "delta", "unknown"])
places = st.frozensets(st.sampled_from(["/a", "/a/b", "/c", "t*", "t"]), max_size=2)
names = st.none() | st.sampled_from(["x", "y"])
olds = st.lists(st.builds(OldSource, st.uuids().map(str), kinds, st.none(), places, names), max_size=4)
news = st.lists(st.builds(NewSource, st.uuids().map(str), kinds, places, names), max_size=4)


@given(olds, news)
def test_every_old_source_goes_on_once_or_is_dropped_and_every_new_one_continues_one_or_asks(
    before: list[OldSource], after: list[NewSource]
) -> None:
    found = propose_mapping(before, after)
    assert sorted([p.old for p in found.pairs] + [d.old for d in found.dropped]) == sorted(
        o.key for o in before
    )
    assert sorted([p.new for p in found.pairs] + [a.new for a in found.added]) == sorted(n.key for n in after)
    said = [*(p.why for p in found.pairs), *(d.says for d in found.dropped), *(a.asks for a in found.added)]
    assert all(text.endswith(".") for text in said)


def test_a_delta_table_is_known_by_its_id_whatever_its_path() -> None:
    """A checkpoint has the id alone, the code a path; who looked at the table there can tell that it is the one."""
    held = [old("0", "delta", "id-a")]
    told = [
        new_source(0, SourceReader("delta", location="/b", table_id="id-b")),
        new_source(1, SourceReader("delta", location="/a", table_id="id-a")),
    ]
    found = propose_mapping(held, told)
    assert [(p.old, p.new, p.certainty) for p in found.pairs] == [("0", "1", Certainty.CERTAIN)]
    assert [a.new for a in found.added] == ["0"]
