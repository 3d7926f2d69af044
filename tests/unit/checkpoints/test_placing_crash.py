"""Whatever is put into place, a death at any write leaves nothing, or what the next run finishes or removes."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint, list_versions, publishing, repair, seed, transplant
from recovery.checkpoints.publishing import SeedState
from recovery.checkpoints.repair import KnownFacts
from tests.checkpoint_builder import Built
from tests.unit.checkpoints.killing import deaths, killed
from tests.unit.checkpoints.seeding import free, tree

KNOWN = KnownFacts(new_query_id="11111111-1111-4111-8111-111111111111", sink_kind="files", sink_head=2)


def seeded(where: str, fence: int) -> None:
    ready = seed.prepare_seed(
        where, seed.plan_seed(inspect_checkpoint(where)), recovery="R-1", fence=fence, guard=free
    )
    publishing.publish_checkpoint(where, ready, guard=free)


def repaired(where: str, fence: int) -> None:
    ready = repair.prepare_repair(
        where, repair.plan_repair(where, KNOWN), recovery="R-1", fence=fence, guard=free
    )
    publishing.publish_checkpoint(where, ready, guard=free)


def rolled_back(where: str, fence: int) -> None:
    ready = transplant.prepare_layout(
        where, transplant.plan_rollback(where, 1), recovery="R-1", fence=fence, guard=free
    )
    publishing.publish_checkpoint(where, ready, guard=free)


QUERY = "6c2a0c56-8f1a-4f0e-9a67-2d1f5b8e7c11"  # its sidecar stays, so that places compare


@dataclass
class Case:
    """A damaged checkpoint below `root`: version 0 of a flow, or one with a fixed place."""

    root: Path
    act: Callable[[str, int], None]
    fixed: bool
    batch: int = 2

    @property
    def where(self) -> Path:
        return self.root / "ck"

    @property
    def old(self) -> Path:
        return self.where if self.fixed else self.where / "0"

    def arrange(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        Built(self.old, batches=3, planned=1, partitions=1, query_id=QUERY).write()
        (self.old / "metadata").unlink()

    def first(self) -> Callable[[], None]:
        self.arrange()
        return lambda: self.act(str(self.where), 1)

    def all_is_well(self) -> None:
        report = inspect_checkpoint(str(self.where))
        assert (report.last_committed, report.blockers) == (self.batch, ())
        assert publishing.probe_outcome(str(self.where), recovery="R-1").in_place
        room = self.root if self.fixed else self.where
        assert not [p for p in room.iterdir() if p.name == ".reprise-R-1" or p.name.endswith(".new")]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed loses nothing that it wrote; only a power cut asks for fsync."""
    monkeypatch.setattr("recovery.checkpoints.storage.os.fsync", lambda handle: None)


CASES = [
    (f"{name}, {'fixed place' if fixed else 'versions'}", act, fixed, batch)
    for name, act, batch in (("seed", seeded, 2), ("repair", repaired, 2), ("rollback", rolled_back, 1))
    for fixed in (False, True)
]


@pytest.fixture(params=CASES, ids=[c[0] for c in CASES])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(tmp_path / "room", *request.param[1:])


def test_a_death_at_any_write_leaves_what_the_next_run_finishes(case: Case) -> None:
    case.arrange()
    before = tree(case.old)
    for death in deaths(case.first):
        seen = publishing.probe_outcome(str(case.where), recovery="R-1")
        assert not seen.unclear, death
        if not seen.in_place:
            publishing.clean_leftovers(str(case.where), recovery="R-1")
            assert tree(case.old) == before, death
            assert publishing.probe_outcome(str(case.where), recovery="R-1").state is SeedState.NOTHING, death
            case.act(str(case.where), 2)
        case.all_is_well()
        kept = case.root / ".reprise-R-1-before" if case.fixed else case.old
        assert tree(kept) == before, death


def test_a_death_in_an_undo_is_finished_by_the_next_one(case: Case) -> None:
    case.arrange()
    before = tree(case.old)
    where = str(case.where)

    def undo() -> None:
        publishing.undo_publish(where, recovery="R-1", sink_head=2)

    def arranged() -> Callable[[], None]:
        case.first()()
        return undo

    for nth, when in [(n, w) for n in range(1, 5) for w in ("before", "after")]:
        if not killed(arranged(), nth, when):
            continue
        seen = publishing.probe_outcome(where, recovery="R-1")
        assert not seen.unclear
        if seen.in_place:
            undo()
        publishing.clean_leftovers(where, recovery="R-1")
        assert tree(case.old) == before
        assert publishing.probe_outcome(where, recovery="R-1").state is SeedState.UNDONE
        if not case.fixed:
            assert list_versions(where) == [0]
