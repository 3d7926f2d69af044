"""A repair: the next checkpoint version with progress and state kept, and each damage repaired that can be.

Never in place. What it would hold is laid out in memory and judged by the same reader (`plan_repair`: the preview);
`prepare` writes it beside the old one, `placing` puts it into place. State files are linked where the store can.
"""

from dataclasses import dataclass

from recovery.checkpoints import planned_checkpoint
from recovery.checkpoints.file_layout import Layout, lay_out, layout_of
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.inspection import inspect_checkpoint, judge_store, open_checkpoint
from recovery.checkpoints.planned_checkpoint import LaidPlan, target_of
from recovery.checkpoints.publishing import PreparedCheckpoint
from recovery.checkpoints.repairing import (
    MENDERS,
    CannotRepair,
    KnownFacts,
    ListedInput,
    RepairWork,
    UnrepairedDamage,
    batches,
    state,
)
from recovery.checkpoints.report import CheckpointReport, Finding, Severity
from recovery.checkpoints.storage import reaching
from recovery.checkpoints.undo_record import Guard
from recovery.contracts.steps import DamageMending
from recovery.errors import Refused

__all__ = [
    "KnownFacts",
    "ListedInput",
    "RepairPlan",
    "UnrepairedDamage",
    "damage_to_repair",
    "find_lost_offsets",
    "plan_repair",
    "prepare_repair",
]

OUTSIDE = ("VERSION_NOT_A_DIRECTORY",)  # next to the checkpoint, where nothing is rewritten
WITHIN_STATE_FILES = ("STATE_FILE_DAMAGED", "STATE_BLOCK_DAMAGED")
OFFSETS_LOST = frozenset(code for code, mender in MENDERS.items() if mender is batches.lost_offsets)
MAX_MENDINGS = 100  # of one checkpoint; more is no damage but another thing


@dataclass(frozen=True, kw_only=True)
class RepairPlan(LaidPlan):
    """What a repair will do, and the report of the damaged checkpoint before it.

    `left`: damage that stays. `complete`: nothing is left that Spark would fail at or that doubles or loses rows.
    """

    mendings: tuple[DamageMending, ...]
    left: tuple[UnrepairedDamage, ...]
    before: CheckpointReport

    @property
    def complete(self) -> bool:
        return not any(damage.blocker for damage in self.left)

    @property
    def exact(self) -> bool:
        """False: a repair was inferred, so that no one can promise which input was read."""
        return all(m.exact for m in self.mendings)


def damage_to_repair(report: CheckpointReport) -> tuple[Finding, ...]:
    """Findings that a repair is about: every blocker, and the silent losses of checks that it can put back."""
    return tuple(f for f in report.findings if f.severity is Severity.BLOCKER or f.code in MENDERS)


def find_lost_offsets(location: str, report: CheckpointReport) -> tuple[UnrepairedDamage, ...]:
    """Lost offset files that no repair can rebuild: what is left of the checkpoint decides that alone. Reads only.

    `report`: of the checkpoint at `location`. Raises as `plan_repair`.
    """
    if not any(f.code in OFFSETS_LOST for f in report.findings):
        return ()
    return tuple(damage for damage in plan_repair(location).left if damage.code in OFFSETS_LOST)


def plan_repair(
    location: str, known: KnownFacts | None = None, *, sink: str | None = None, deep: bool = False
) -> RepairPlan:
    """The preview: which damage would be repaired how, and what would stay. Reads only.

    `location`, `sink` and `deep` as for `inspect`. Raises Unreachable when a path cannot be read, Refused when it has
    too many files to be taken along.
    """
    known = known or KnownFacts()
    before = inspect_checkpoint(location, sink=sink, deep=deep)
    store, version = open_checkpoint(location)
    with reaching(location):
        layout = layout_of(store)
        target = target_of(before, store, version)
        work = RepairWork(store, layout, before, known, target)
        mendings = _left_behind(before, layout)
        mendings += state.at_home(layout, store, target)
        left = _mend_all(work, version, sink, mendings)
        after = work.report
    return RepairPlan(
        from_version=version,
        batch=after.last_committed,
        offsets=tuple(s.offset_json for s in after.sources),
        fingerprint=before.fingerprint,
        location=location,
        sink_head=known.sink_head,
        mendings=tuple(mendings),
        left=left,
        before=before,
        after=after,
        layout=layout,
    )


def _left_behind(before: CheckpointReport, layout: Layout) -> list[DamageMending]:
    """What goes by itself, because no hidden file is taken along."""
    return [
        DamageMending(code=f.code, file=f.file or "", says=f.says, how="Left out.")
        for f in before.findings
        if f.code == "ORPHAN_CRC"
    ]


def _mend_all(
    work: RepairWork, version: int | None, sink: str | None, mendings: list[DamageMending]
) -> tuple[UnrepairedDamage, ...]:
    """One repair at a time, judged again after each: one damage may hide or explain another."""
    first, failed = work.report, dict[tuple[str, str | None], str]()
    for _ in range(MAX_MENDINGS):
        work.report = judge_store(lay_out(work.layout, work.old, work.target), version=version, sink=sink)
        damage = next(
            (f for f in work.report.findings if f.code in MENDERS and (f.code, f.file) not in failed), None
        )
        if damage is None:
            break
        failed[(damage.code, damage.file)] = "Its mending did not hold."
        try:
            mendings.append(MENDERS[damage.code](work, damage))
        except CannotRepair as reason:
            failed[(damage.code, damage.file)] = str(reason)
        except Malformed as reason:
            failed[(damage.code, damage.file)] = (
                f"A file that it would be rebuilt from cannot be read: {reason.why}."
            )
    # no repair changes what a state file holds, so each is read once
    stays = [f for f in first.findings if f.code in OUTSIDE or f.code in WITHIN_STATE_FILES]
    stays += [f for f in damage_to_repair(work.report) if f not in stays]
    return tuple(
        UnrepairedDamage(
            f.code, f.file, f.says, failed.get((f.code, f.file), f.do), f.severity is Severity.BLOCKER
        )
        for f in stays
    )


def prepare_repair(
    location: str, plan: RepairPlan, *, recovery: str, fence: int, guard: Guard
) -> PreparedCheckpoint:
    """Write the repaired checkpoint beside the one in use and read it back; see `placing.prepare_checkpoint`.

    Raises Refused, besides, when the plan leaves damage that Spark would run into, or when nothing is repaired.
    """
    if not plan.complete:
        raise Refused(_what_stays(plan), code="not_mendable")
    if not plan.mendings:
        raise Refused(
            "Nothing in this checkpoint is damaged, so there is nothing to repair.", code="not_damaged"
        )
    return planned_checkpoint.prepare_layout(location, plan, recovery=recovery, fence=fence, guard=guard)


def _what_stays(plan: RepairPlan) -> str:
    stays = [damage for damage in plan.left if damage.blocker]
    more = f" ({len(stays) - 1} more stay.)" if len(stays) > 1 else ""
    return f"Not everything can be repaired: {stays[0].says} {stays[0].why}{more}"
