"""What an update that failed, was stopped or selected something else leaves of what stands downstream. Pure."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.pipelines import events as log
from recovery.pipelines.downstream import BehindReason, BehindSince, DatasetFreshness, Node, below, standings

CHANGES = Node("c.s.changes_flow", "c.s.changes", ("files",), "APPEND")
COPY = Node("c.s.copy", "c.s.copy", ("c.s.changes",), "APPEND")
VIEW = Node("c.s.view", "c.s.view", ("c.s.changes", "c.s.other"), "MATERIALIZED_VIEW")
TOP = Node("c.s.top", "c.s.top", ("c.s.view",), "MATERIALIZED_VIEW")
ALONE = Node("c.s.alone", "c.s.alone", ("files",), "APPEND")
EVERY = (TOP, VIEW, COPY, CHANGES, ALONE)
SHORT = {"c": CHANGES, "k": COPY, "v": VIEW, "t": TOP, "a": ALONE}
STATUS = {"ok": "COMPLETED", "fail": "FAILED", "skip": "SKIPPED", "out": "EXCLUDED", "stop": "STOPPED"}
OUTCOME = {"ok": "ok", "fail": "failed", "skip": "none", "out": "none", "stop": "stopped"}


def at(number: int) -> str:
    return f"2026-11-22T19:{number:02}:00+00:00"


def behinds(
    updates: list[dict[str, Any]], nodes: tuple[Node, ...], known: dict[str, BehindSince | None] | None = None
) -> dict[str, BehindSince | None]:
    """How the datasets of one pipeline are behind that reads no other."""
    before = {name: DatasetFreshness(behind) for name, behind in (known or {}).items()}
    return {name: one.behind for name, one in standings(updates, nodes, before).items()}


def update(number: int, told: str, emptied: str = "", **more: Any) -> dict[str, Any]:
    """`told`: `c=ok+ v=skip`; + where it wrote. `emptied`: the datasets that set-up emptied."""
    flows = {}
    for part in told.split():
        short, said = part.split("=")
        word = said.rstrip("+")
        flows[SHORT[short].name] = {
            "outcome": OUTCOME[word],
            "status": STATUS[word],
            "wrote": said.endswith("+"),
            "at": at(number),
        }
    gone = {SHORT[short].dataset: at(number) for short in emptied.split()}
    return {"update_id": f"u{number}", "read": True, "flows": flows, "emptied": gone} | more


ALL_WELL = update(1, "c=ok+ k=ok+ v=ok+ t=ok+ a=ok+", "v t")
FAILED = update(2, "c=fail k=skip v=skip t=skip a=ok+", "v t")
RERUN = update(3, "c=ok+ k=out v=out t=out a=out")
IDLE = update(4, "c=ok k=out v=out t=out a=out")
REFRESH = update(5, "c=out k=ok+ v=ok+ t=ok+ a=out", "v t")
EMPTIED, NOT_REACHED, LEFT_OUT, OF_BEHIND = (
    BehindReason.EMPTIED,
    BehindReason.NOT_REACHED,
    BehindReason.LEFT_OUT,
    BehindReason.OF_BEHIND,
)


@pytest.mark.parametrize(
    ("updates", "behind"),
    [
        pytest.param([ALL_WELL], {}, id="all is well"),
        pytest.param(
            [ALL_WELL, FAILED],
            {"v": (EMPTIED, 2), "t": (EMPTIED, 2), "k": (NOT_REACHED, 2)},
            id="a failure leaves views empty and tables stale",
        ),
        pytest.param(
            [ALL_WELL, FAILED, RERUN, IDLE],
            {"v": (EMPTIED, 2), "t": (EMPTIED, 2), "k": (NOT_REACHED, 2)},
            id="a recovery that leaves them out changes nothing of it",
        ),
        pytest.param([ALL_WELL, FAILED, RERUN, REFRESH, IDLE], {}, id="a refresh after it does"),
        pytest.param(
            [ALL_WELL, RERUN],
            {"v": (LEFT_OUT, 3), "k": (LEFT_OUT, 3), "t": (OF_BEHIND, 3)},
            id="what is written without them leaves them stale",
        ),
        pytest.param([ALL_WELL, IDLE], {}, id="an update that writes nothing does not"),
        pytest.param(
            [ALL_WELL, FAILED, update(6, "t=ok+ c=out v=out k=out", "t")],
            {"v": (EMPTIED, 2), "k": (NOT_REACHED, 2), "t": (OF_BEHIND, 2)},
            id="a view made anew of an empty one is no better",
        ),
        pytest.param(
            [ALL_WELL, update(7, "c=stop+ k=stop v=stop t=stop a=stop", "v t")],
            {"v": (EMPTIED, 7), "t": (EMPTIED, 7)},
            id="a stop leaves views empty",
        ),
        pytest.param(
            [ALL_WELL, update(8, "c=fail k=skip v=skip t=skip a=ok+")],
            {"v": (NOT_REACHED, 8), "k": (NOT_REACHED, 8), "t": (NOT_REACHED, 8)},
            id="nobody said that they were emptied",
        ),
        pytest.param(
            [ALL_WELL, FAILED, update(9, "c=fail k=skip v=skip t=skip a=ok+", "v t")],
            {"v": (EMPTIED, 2), "t": (EMPTIED, 2), "k": (NOT_REACHED, 2)},
            id="since the first of several failures",
        ),
        pytest.param([ALL_WELL, {**FAILED, "read": False}], {}, id="events may still come"),
        pytest.param([ALL_WELL, {**FAILED, "validate_only": True}], {}, id="a validation"),
        pytest.param([ALL_WELL, update(10, "")], {}, id="an update that came to no flow"),
    ],
)
def test_what_an_update_leaves_behind(
    updates: list[dict[str, Any]], behind: dict[str, tuple[BehindReason, int]]
) -> None:
    found = behinds(updates[::-1], EVERY)
    told = {s: (b.why, b.since) for s, n in SHORT.items() if (b := found[n.name]) is not None}
    assert told == {s: (why, log.when(at(number))) for s, (why, number) in behind.items()}


def test_it_is_remembered_when_the_update_that_did_it_is_no_longer_listed() -> None:
    known = behinds([FAILED, ALL_WELL], EVERY)
    assert behinds([IDLE, RERUN], EVERY, known) == known
    assert not any(behinds([REFRESH], EVERY, known).values())


def test_what_an_older_version_noted_of_an_update_is_read_as_far_as_it_goes() -> None:
    old = {"update_id": "u0", "read": True, "flows": {VIEW.name: {"outcome": "none", "at": at(0)}}}
    assert not any(behinds([old], EVERY).values())
    known = {VIEW.name: BehindSince(None, BehindReason.EMPTIED, "u2")}
    assert behinds([old], EVERY, known)[VIEW.name] == known[VIEW.name]


@pytest.mark.parametrize(
    ("dataset", "names"),
    [
        ("c.s.changes", [VIEW, COPY, TOP]),
        ("c.s.view", [TOP]),
        ("c.s.alone", []),
    ],
)
def test_what_reads_a_dataset_comes_in_an_order_in_which_it_can_run(dataset: str, names: list[Node]) -> None:
    assert list(below(dataset, EVERY)) == names


def test_flows_that_read_each_other_are_each_named_once() -> None:
    one, two = Node("1", "d1", ("d0", "d2")), Node("2", "d2", ("d1",))
    assert {n.name for n in below("d0", (one, two))} == {"1", "2"}


TV = Node("tv", "tv", ("c.s.changes",), "VIEW", 1)
TOTAL = Node("c.s.total", "c.s.total", ("tv",), "MATERIALIZED_VIEW", 1)
FOREIGN_TV = Node("tv", "tv", ("c.s.other",), "VIEW", 2)
FOREIGN = Node("c.s.foreign", "c.s.foreign", ("tv",), "MATERIALIZED_VIEW", 2)


def test_a_temporary_view_is_known_to_its_own_pipeline_alone() -> None:
    nodes = (replace(CHANGES, pipeline=1), TV, TOTAL, FOREIGN_TV, FOREIGN)
    assert [n.name for n in below("c.s.changes", nodes)] == [TOTAL.name]
    assert [n.name for n in below("c.s.other", nodes)] == [FOREIGN.name]


def test_a_view_with_a_full_name_is_known_to_every_pipeline() -> None:
    view = Node("c.s.pv", "c.s.pv", ("c.s.changes",), "VIEW", 1)
    reader = Node("c.s.r", "c.s.r", ("c.s.pv",), "MATERIALIZED_VIEW", 2)
    assert below("c.s.changes", (view, reader)) == (replace(reader, inputs=("c.s.changes",)),)


@pytest.mark.parametrize(("total", "why"), [("ok", None), ("none", LEFT_OUT)])
def test_a_view_without_rows_is_behind_only_as_what_it_reads(total: str, why: BehindReason | None) -> None:
    run = update(1, "c=ok+")
    run["flows"][TOTAL.name] = {"outcome": total, "status": "", "wrote": total == "ok", "at": at(1)}
    known = {TV.name: BehindSince(None, LEFT_OUT, "u0")}
    found = behinds([run], (CHANGES, replace(TV, pipeline=0), replace(TOTAL, pipeline=0)), known)
    behind = found[TOTAL.name]
    assert (found[TV.name], behind.why if behind else None) == (None, why)


def test_a_view_over_a_stale_table_is_stale_and_so_is_what_reads_it() -> None:
    over_copy = Node("tv", "tv", (COPY.dataset,), "VIEW")
    top = Node("c.s.top2", "c.s.top2", ("tv",), "MATERIALIZED_VIEW")
    whole = update(1, "c=ok+ k=ok+")
    whole["flows"][top.name] = {"outcome": "ok", "status": "COMPLETED", "wrote": True, "at": at(1)}
    found = behinds([RERUN, whole], (CHANGES, COPY, over_copy, top))
    assert {n: b.why for n, b in found.items() if b} == {
        COPY.name: LEFT_OUT, "tv": OF_BEHIND, top.name: OF_BEHIND,
    }  # fmt: skip


READER = Node("d.s.reader", "d.s.reader", ("c.s.changes",), "MATERIALIZED_VIEW", 2)
BESIDE = Node("d.s.beside", "d.s.beside", ("d.s.reader",), "MATERIALIZED_VIEW", 2)


def ran(number: int, outcome: str = "ok") -> dict[str, Any]:
    """An update of the other pipeline that began in this minute and was over half a minute later."""
    flows = {
        n.name: {"outcome": outcome, "status": "", "wrote": True, "at": f"2026-11-22T19:{number:02}:30+00:00"}
        for n in (READER, BESIDE)
    }
    return {"update_id": f"o{number}", "read": True, "creation_time": at(number), "flows": flows}


@pytest.mark.parametrize(
    ("source", "updates", "why"),
    [
        pytest.param(DatasetFreshness(), [ran(1)], None, id="new rows are no fault"),
        pytest.param(
            DatasetFreshness(renewed_at=log.when(at(5))),
            [ran(1)],
            BehindReason.RENEWED,
            id="written anew after it",
        ),
        pytest.param(
            DatasetFreshness(renewed_at=log.when(at(5))), [ran(6), ran(1)], None, id="it ran after that"
        ),
        pytest.param(
            DatasetFreshness(renewed_at=log.when(at(5))),
            [ran(6, "failed"), ran(1)],
            BehindReason.RENEWED,
            id="it failed after that",
        ),
        pytest.param(
            DatasetFreshness(BehindSince(log.when(at(5)), EMPTIED)),
            [ran(1)],
            OF_BEHIND,
            id="empty, and not read since",
        ),
        pytest.param(
            DatasetFreshness(BehindSince(log.when(at(5)), EMPTIED)),
            [ran(6)],
            OF_BEHIND,
            id="read while empty",
        ),
    ],
)
def test_a_reader_in_another_pipeline_is_stale_only_by_more_than_its_schedule(
    source: DatasetFreshness, updates: list[dict[str, Any]], why: BehindReason | None
) -> None:
    found = standings(updates, (READER, BESIDE), {}, {"c.s.changes": source})
    behind = found[READER.name].behind
    assert (behind.why if behind else None) is why
    beside = found[BESIDE.name].behind
    assert (beside.why if beside else None) is (OF_BEHIND if why else None)


def test_a_reader_that_has_read_since_is_renewed_for_those_who_read_it() -> None:
    source = {"c.s.changes": DatasetFreshness(renewed_at=log.when(at(5)))}
    before = standings([ran(1)], (READER, BESIDE), {}, source)
    after = standings([ran(6), ran(1)], (READER, BESIDE), before, source)
    assert after[READER.name] == DatasetFreshness(
        None, log.when(at(6)), log.when("2026-11-22T19:06:30+00:00")
    )


@pytest.mark.parametrize(
    ("updates", "renewed"),
    [
        pytest.param([ALL_WELL], {}, id="a view is computed anew by every update"),
        pytest.param([update(2, "c=ok+", "c")], {"c": 2}, id="a table that was emptied"),
        pytest.param([update(2, "c=ok+", full_refresh=True)], {"c": 2}, id="a full refresh"),
        pytest.param(
            [update(2, "c=ok+", full_refresh_selection=["changes"])], {"c": 2}, id="a full refresh by name"
        ),
        pytest.param(
            [ALL_WELL, FAILED, REFRESH], {"k": 5, "v": 5, "t": 5}, id="what was behind is not any more"
        ),
        pytest.param([ALL_WELL, RERUN], {}, id="new rows"),
    ],
)
def test_what_counts_as_written_anew(updates: list[dict[str, Any]], renewed: dict[str, int]) -> None:
    found = standings(updates[::-1], EVERY, {})
    told = {s: m for s, n in SHORT.items() if (m := found[n.name].renewed_at) is not None}
    assert told == {short: log.when(at(number)) for short, number in renewed.items()}


@pytest.mark.parametrize(
    ("updates", "rewritten"),
    [
        pytest.param([update(2, "c=ok+", "c")], {"c": 2}, id="a table that was emptied"),
        pytest.param([update(2, "c=ok+", full_refresh=True)], {"c": 2}, id="a full refresh"),
        pytest.param([update(2, "c=fail", "c")], {}, id="emptied, and not filled"),
        pytest.param([ALL_WELL, FAILED, REFRESH], {}, id="what was behind caught up"),
    ],
)
def test_only_an_update_that_fills_an_emptied_table_writes_it_from_scratch(
    updates: list[dict[str, Any]], rewritten: dict[str, int]
) -> None:
    found = standings(updates[::-1], EVERY, {})
    told = {s: m for s, n in SHORT.items() if (m := found[n.name].rewritten_at) is not None}
    assert told == {short: log.when(at(number)) for short, number in rewritten.items()}


def test_a_view_without_rows_is_renewed_as_what_it_reads() -> None:
    over_changes = Node("c.s.pv", "c.s.pv", ("c.s.changes",), "VIEW")
    found = standings([update(2, "c=ok+", "c")], (CHANGES, over_changes), {})
    assert found["c.s.pv"] == DatasetFreshness(renewed_at=log.when(at(2)))
    outside = {
        "c.s.changes": DatasetFreshness(BehindSince(log.when(at(5)), LEFT_OUT), renewed_at=log.when(at(3)))
    }
    found = standings([], (replace(over_changes, pipeline=2),), {}, outside)
    assert found["c.s.pv"] == DatasetFreshness(
        BehindSince(log.when(at(5)), OF_BEHIND), renewed_at=log.when(at(3))
    )
