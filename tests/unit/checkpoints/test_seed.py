"""A seed: what it holds, what refuses it, and that a crash at any write leaves nothing half done."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from recovery.checkpoints import inspect_checkpoint, list_versions, seed
from recovery.checkpoints.seed import SeedState
from recovery.errors import Refused, WrongUse
from tests.checkpoint_builder import Built, put, sink_log
from tests.refusals import refused
from tests.unit.checkpoints.seeding import flow, free, prepared, seeded, tree

__all__ = ["flow"]


def test_a_seed_holds_the_committed_progress_and_nothing_else(flow: Path) -> None:
    before = tree(flow / "0")
    assert seeded(flow) == 1
    after = tree(flow / "1")
    assert set(after) == {
        "metadata",
        "offsets/1",
        "offsets/2",
        "commits/2",
        *(f"sources/0/{n}" for n in range(3)),
    }
    assert after["offsets/1"] == after["offsets/2"] == before["offsets/2"]
    assert after["commits/2"] == before["commits/2"]
    assert json.loads(after["metadata"])["id"] != json.loads(before["metadata"])["id"]
    report = inspect_checkpoint(str(flow))
    assert (report.version, report.last_committed, report.last_planned, report.findings) == (1, 2, 2, ())


def test_a_reset_never_touches_the_old_version(flow: Path) -> None:
    def state() -> dict[str, tuple[int, int, bytes]]:
        files = (p for p in sorted((flow / "0").rglob("*")) if p.is_file())
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_ino, p.read_bytes()) for p in files}

    before = state()
    seeded(flow)
    seed.undo_publish(str(flow), recovery="R-1", sink_head=2)
    assert state() == before


def test_batch_0_needs_one_offset_file_and_every_log_entry(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", batches=1, planned=1).write()
    seeded(tmp_path / "flow")
    assert {n for n in tree(tmp_path / "flow/1") if n != "metadata"} == {
        "offsets/0",
        "commits/0",
        "sources/0/0",
    }


def test_ids_of_state_files_are_taken_out_of_a_commit_in_format_2(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", version=2).write()
    seeded(tmp_path / "flow")
    commit = (tmp_path / "flow/1/commits/2").read_text()
    assert commit == 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'


@pytest.mark.parametrize(
    ("batches", "cut_interval", "kept"),
    [
        (9, 10, {str(n) for n in range(9)}),
        (19, 10, {"9.compact", *(str(n) for n in range(19) if n != 9)}),
        (11, 12, {"10.compact"}),
        (25, 10, {"9.compact", "19.compact", *(str(n) for n in range(25) if n not in (9, 19))}),
    ],
)
def test_a_compacted_entry_above_the_position_is_cut(
    tmp_path: Path, batches: int, cut_interval: int, kept: set[str]
) -> None:
    Built(tmp_path / "flow/0", batches=batches, planned=1, interval=cut_interval).write()
    seeded(tmp_path / "flow")
    assert {p.name for p in (tmp_path / "flow/1/sources/0").iterdir()} == kept
    old, new = (inspect_checkpoint(str(tmp_path / f"flow/{n}")).sources[0] for n in (0, 1))
    assert new.committed == old.committed
    assert len(new.planned) == 0


def test_two_sources_keep_their_own_positions(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", batches=12, planned=1, sources=2).write()
    seeded(tmp_path / "flow")
    assert [len(s.committed) for s in inspect_checkpoint(str(tmp_path / "flow")).sources] == [12, 12]


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: (c / "offsets/1").unlink(),
        lambda c: (c / "metadata").unlink(),
        lambda c: (c / "offsets/3").write_text(""),
        lambda c: (c / "sources/0/3").unlink(),
        lambda c: shutil.rmtree(c / "state/0/1"),
        lambda c: (c / "offsets/.4.crc").write_text("left over"),
        lambda c: shutil.copy(c / "offsets/2", c / "offsets/40"),
    ],
)
def test_damage_that_a_seed_does_not_carry_on_is_left_behind(
    flow: Path, damage: Callable[[Path], Any]
) -> None:
    damage(flow / "0")
    assert seeded(flow) == 1
    assert inspect_checkpoint(str(flow)).findings == ()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda c: (c / "sources/0/2").write_text("v1"), "names no file"),
        (lambda c: (c / "sources/0/1").unlink(), "Log entry 1"),
        (lambda c: (c / "offsets/2").write_text(""), "Offset file 2"),
        (lambda c: (c / "commits/2").write_text(""), "Commit file 2"),
        (lambda c: [(c / f"commits/{n}").unlink() for n in range(3)], "newest commit file is missing"),
        (lambda c: (c / "commits/2").unlink(), "newest commit file is 1"),
        (lambda c: [(c / f"offsets/{n}").unlink() for n in (2, 3)], "newest offset file is 1"),
    ],
)
def test_damage_that_a_seed_would_carry_on_is_refused(
    flow: Path, damage: Callable[[Path], Any], words: str
) -> None:
    damage(flow / "0")
    with pytest.raises(Refused, match=words):
        seed.plan_seed(inspect_checkpoint(str(flow)))


def test_nothing_committed_means_nothing_to_keep(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", batches=0, planned=1).write()
    (tmp_path / "other/0").mkdir(parents=True)
    for where in ("flow", "other"):
        with refused("nothing_committed", Refused):
            seed.plan_seed(inspect_checkpoint(str(tmp_path / where)))


@pytest.mark.parametrize("batches", [1, 3, 9, 10])
@pytest.mark.parametrize("sources", [1, 2])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("operators", [(), ("dedupe",)])
@pytest.mark.parametrize("held", [False, True], ids=["table at N", "table at N + 1"])
def test_a_seed_goes_on_after_the_last_batch_that_the_table_holds(
    tmp_path: Path, batches: int, sources: int, version: int, operators: tuple[str, ...], held: bool
) -> None:
    """N = 0 and above, one or two sources, plain and compacted logs, both formats, with and without state."""
    built = Built(tmp_path / "flow/0", batches, 1, sources, operators, version=version)
    built.write()
    last = batches if held else batches - 1
    sink_log(tmp_path / "table", last)
    plan = seed.plan_seed(inspect_checkpoint(str(tmp_path / "flow"), sink=str(tmp_path / "table")))
    ready = seed.prepare_seed(str(tmp_path / "flow"), plan, recovery="R-1", fence=1, guard=free)
    assert seed.publish_checkpoint(str(tmp_path / "flow"), ready, guard=free) == 1
    report = inspect_checkpoint(str(tmp_path / "flow"), sink=str(tmp_path / "table"))
    assert (report.last_committed, report.last_planned, report.findings) == (last, last, ())
    assert [s.log_offset for s in report.sources] == [last] * sources
    assert [len(s.committed) for s in report.sources] == [last + 1] * sources
    assert report.state_operators == ()
    assert (tmp_path / f"flow/1/offsets/{last}").read_bytes() == (
        tmp_path / f"flow/0/offsets/{last}"
    ).read_bytes()


@pytest.mark.parametrize("words", [{"state": "/elsewhere"}, {"watermark_ms": 5}])
def test_after_a_batch_0_that_only_the_table_has_no_state_can_go_on(
    tmp_path: Path, words: dict[str, Any]
) -> None:
    """Its watermark is in no commit."""
    Built(tmp_path / "flow/0", batches=0, planned=1).write()
    sink_log(tmp_path / "table", 0)
    with refused("batch_unsettled", Refused, names=("batch 0",)):
        seed.plan_seed(inspect_checkpoint(str(tmp_path / "flow"), sink=str(tmp_path / "table")), **words)


def test_a_checkpoint_with_one_fixed_place_is_set_aside_and_put_back_by_an_undo(tmp_path: Path) -> None:
    Built(tmp_path / "ck", planned=1).write()
    before = tree(tmp_path / "ck")
    where = str(tmp_path / "ck")
    assert seed.publish_checkpoint(where, prepared(tmp_path / "ck"), guard=free) is None
    assert inspect_checkpoint(where).findings == ()
    assert tree(tmp_path / ".reprise-R-1-before") == before
    assert seed.probe_outcome(where, recovery="R-1").state is SeedState.PUBLISHED
    seed.undo_publish(where, recovery="R-1", sink_head=2)
    assert tree(tmp_path / "ck") == before
    assert seed.probe_outcome(where, recovery="R-1").state is SeedState.UNDONE


def test_one_version_named_by_itself_is_refused(flow: Path) -> None:
    with refused("one_version", Refused):
        prepared(flow / "0")


@pytest.mark.parametrize("label", ["", "../x", "a/b", ".", "R 1", "R-1-undone", "x" * 65])
def test_a_label_that_is_no_file_name_is_refused(flow: Path, label: str) -> None:
    with pytest.raises(WrongUse):
        seed.probe_outcome(str(flow), recovery=label)


def changed_by(flow: Path, change: Callable[[Path], Any]) -> dict[str, bytes]:
    change(flow)
    return tree(flow)


MOVES: list[tuple[str, Callable[[Path], Any], str]] = [
    ("a batch was committed", lambda f: put(f / "0/commits/3", "v1\n{}"), "have changed"),
    ("a newer version appeared", lambda f: (f / "1").mkdir(), "newest checkpoint version is 1"),
    ("a later version appeared", lambda f: (f / "0007").mkdir(), "newest checkpoint version is 7"),
    ("a file took the name", lambda f: (f / "1").write_text(""), "newest checkpoint version is 1"),
    ("the old version went away", lambda f: shutil.rmtree(f / "0"), "is gone"),
]


@pytest.mark.parametrize(("change", "words"), [m[1:] for m in MOVES], ids=[m[0] for m in MOVES])
def test_a_checkpoint_that_moved_since_the_plan_is_left_alone(
    flow: Path, change: Callable[[Path], Any], words: str
) -> None:
    plan = seed.plan_seed(inspect_checkpoint(str(flow)))
    ready = seed.prepare_seed(str(flow), plan, recovery="R-1", fence=1, guard=free)
    now = changed_by(flow, change)
    with pytest.raises(Refused, match=words):
        seed.publish_checkpoint(str(flow), ready, guard=free)
    with pytest.raises(Refused, match=words):
        seed.prepare_seed(str(flow), plan, recovery="R-2", fence=1, guard=free)
    assert tree(flow) == now


def test_a_version_that_appears_at_the_very_last_moment_is_not_replaced(flow: Path) -> None:
    ready = prepared(flow)
    with pytest.raises(Refused, match="has appeared meanwhile"):
        seed.publish_checkpoint(str(flow), ready, guard=lambda: (flow / "1").mkdir())
    assert list((flow / "1").iterdir()) == []
    assert seed.probe_outcome(str(flow), recovery="R-1").state is SeedState.PREPARED


def test_a_prepared_seed_that_was_changed_is_not_published(flow: Path) -> None:
    ready = prepared(flow)
    (flow / ".reprise-R-1/sources/0/2").write_text("v1")
    with pytest.raises(Refused, match="was changed"):
        seed.publish_checkpoint(str(flow), ready, guard=free)
    assert list_versions(str(flow)) == [0]


def test_an_attempt_that_was_overtaken_publishes_nothing(flow: Path) -> None:
    first = prepared(flow, fence=1)
    second = prepared(flow, fence=2)
    with pytest.raises(Refused, match="Another attempt"):
        seed.publish_checkpoint(str(flow), first, guard=free)
    with pytest.raises(Refused, match="newer attempt"):
        prepared(flow, fence=1)
    assert seed.publish_checkpoint(str(flow), second, guard=free) == 1
    with pytest.raises(Refused):
        seed.publish_checkpoint(str(flow), second, guard=free)
    assert list_versions(str(flow)) == [0, 1]


def test_an_undo_is_possible_until_something_was_committed(flow: Path) -> None:
    seeded(flow)
    assert seed.undo_refusal(str(flow), recovery="R-1", sink_head=2) is None
    assert "table has batch 3" in str(seed.undo_refusal(str(flow), recovery="R-1", sink_head=3))
    put(flow / "1/offsets/3", "planned only")
    assert seed.undo_refusal(str(flow), recovery="R-1", sink_head=None) is None
    put(flow / "1/commits/3", "v1\n{}")
    with pytest.raises(Refused, match="Batch 3 was committed"):
        seed.undo_publish(str(flow), recovery="R-1", sink_head=2)
    (flow / "1/commits/3").unlink()
    (flow / "2").mkdir()
    assert "Version 2 was made after" in str(seed.undo_refusal(str(flow), recovery="R-1", sink_head=2))
    (flow / "2").rmdir()
    seed.undo_publish(str(flow), recovery="R-1", sink_head=2)
    assert list_versions(str(flow)) == [0]
    assert seed.probe_outcome(str(flow), recovery="R-1").state is SeedState.UNDONE
    assert "nothing to take back" in str(seed.undo_refusal(str(flow), recovery="R-1", sink_head=2))


def test_nothing_of_another_recovery_is_taken_back(flow: Path) -> None:
    seeded(flow, recovery="R-1")
    assert "R-2" in str(seed.undo_refusal(str(flow), recovery="R-2", sink_head=2))
    shutil.rmtree(flow / "1")
    Built(flow / "1").write()
    assert seed.undo_refusal(str(flow), recovery="R-1", sink_head=2) is not None


@pytest.mark.parametrize(
    ("arrange", "state"),
    [
        (lambda f: None, SeedState.NOTHING),
        (lambda f: (f / ".reprise-R-1.undo.json.new").write_text("{"), SeedState.NOTHING),
        (lambda f: (f / ".reprise-R-1.undo.json").write_text("{"), SeedState.UNCLEAR),
        (lambda f: (f / ".reprise-R-1").mkdir(), SeedState.UNCLEAR),
    ],
)
def test_a_probe_says_only_what_the_disk_proves(
    flow: Path, arrange: Callable[[Path], Any], state: SeedState
) -> None:
    arrange(flow)
    seen = seed.probe_outcome(str(flow), recovery="R-1")
    assert (seen.state, seen.published) == (state, None)
    assert seen.unclear == any(line.proven is False for line in seen.evidence)


def test_a_version_made_by_somebody_else_is_not_taken_for_the_seed(flow: Path) -> None:
    prepared(flow)
    Built(flow / "1").write()
    assert seed.probe_outcome(str(flow), recovery="R-1").state is SeedState.PREPARED
    seed.clean_leftovers(str(flow), recovery="R-1")
    assert seed.probe_outcome(str(flow), recovery="R-1").state is SeedState.NOTHING
    assert list_versions(str(flow)) == [0, 1]


def test_a_flow_on_another_store_is_seeded_by_a_copy(tmp_path: Path) -> None:
    Built(tmp_path / "0", batches=12, planned=1, sidecars=False).write()
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "0"), "/store/flow/0", recursive=True)
    try:
        where = "memory://store/flow"
        ready = seed.prepare_seed(
            where, seed.plan_seed(inspect_checkpoint(where)), recovery="R-1", fence=1, guard=free
        )
        assert seed.publish_checkpoint(where, ready, guard=free) == 1
        assert seed.probe_outcome(where, recovery="R-1").published == 1
        assert inspect_checkpoint(where).last_committed == 11
        seed.undo_publish(where, recovery="R-1", sink_head=11)
        assert list_versions(where) == [0]
    finally:
        memory.rm("/store", recursive=True)


def test_a_seed_that_does_not_read_back_as_planned_is_removed(flow: Path) -> None:
    plan = replace(seed.plan_seed(inspect_checkpoint(str(flow))), committed_files=(4,))
    with refused("not_as_planned", Refused):
        seed.prepare_seed(str(flow), plan, recovery="R-1", fence=1, guard=free)
    assert [p.name for p in flow.iterdir()] == ["0"]


def test_a_seed_shares_the_log_s_bytes_and_losing_the_old_version_loses_none(flow: Path) -> None:
    assert seeded(flow) == 1
    old, new = flow / "0/sources/0/0", flow / "1/sources/0/0"
    wanted = old.read_bytes()
    assert old.samefile(new)
    old.unlink()
    assert new.read_bytes() == wanted


def test_where_no_hard_link_can_be_made_a_seed_holds_copies(
    flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_disk(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", other_disk)
    assert seeded(flow) == 1
    old, new = flow / "0/sources/0/0", flow / "1/sources/0/0"
    assert not old.samefile(new)
    assert old.read_bytes() == new.read_bytes()
