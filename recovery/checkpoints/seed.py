"""A seeded reset: the next checkpoint version with the old one's progress, without its state.

Order of writes, and what a crash between two of them leaves (Spark's SDP sees numeric names only):

1. `.reprise-<id>.undo.json`   written aside, renamed. Before: nothing. After: a note that nothing follows from.
2. `.reprise-<id>/…`           sources (linked, else copied), offsets, commits, metadata; then all put on disk at once.
                               A crash leaves a directory that Spark ignores: `probe` says prepared, `clean` removes.
3. read back with `inspect`    compared with the plan. A difference removes the directory and is refused.
4. rename to `<latest + 1>`    the one act that anything sees; never over something that is there.
5. the flow directory is put on disk. A crash before it may lose the rename, never half of it.

The old version is only ever read. On stores without an atomic rename step 4 is a copy; a crash in it leaves
both names, which `probe` calls unclear.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from recovery.checkpoints.findings import BY_CODE
from recovery.checkpoints.formats import Malformed, parse_metadata
from recovery.checkpoints.inspection import fingerprint, inspect, versions
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.seed_files import build
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.undo_record import (
    MAX_RECORD_BYTES,
    Guard,
    read_record,
    record_name,
    safe_label,
    write_record,
)
from recovery.errors import Refused, RepriseError


@dataclass(frozen=True)
class SeedPlan:
    """What a seed will hold. `batch`: last committed batch N; the next one will be N + 1."""

    from_version: int | None
    batch: int
    offsets: tuple[str | None, ...]
    log_offsets: tuple[int | None, ...]
    committed_files: tuple[int, ...]
    fingerprint: str  # of the old version, as it was judged
    location: str

    @property
    def to_version(self) -> int | None:
        return None if self.from_version is None else self.from_version + 1


@dataclass(frozen=True)
class Prepared:
    """A seed on disk that nothing sees yet, read back and equal to its plan."""

    plan: SeedPlan
    recovery: str
    fence: int
    query_id: str
    fingerprint: str


class SeedState(StrEnum):
    NOTHING = "nothing"
    PREPARED = "prepared"
    PUBLISHED = "published"
    UNDONE = "undone"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class SeedOutcome:
    """What the disk proves about a seed whose worker may have died. `evidence`: [{proven, says}]."""

    state: SeedState
    published: int | None = None
    evidence: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def unclear(self) -> bool:
        return self.state is SeedState.UNCLEAR


def plan_seed(report: CheckpointReport) -> SeedPlan:
    """What a seed from this checkpoint would hold. Pure.

    Raises Refused when nothing was ever committed, when a source is not a file source, or when there is
    damage that a seed would carry on.
    """
    for found in report.findings:
        kind = BY_CODE.get(found.code)
        if found.code != "CHECKPOINT_EMPTY" and kind and not kind.seed and found.code != "SOURCE_UNKNOWN":
            raise Refused(
                f"The checkpoint cannot be seeded from: {found.says} {found.do}", code="not_seedable"
            )
    if report.last_committed is None:
        raise Refused(
            "Nothing was ever committed in this checkpoint, so there is no position to keep; an update starts "
            "from the beginning anyway.",
            code="not_seedable",
        )
    unknown = next((s for s in report.sources if s.kind != "files"), None)
    if unknown is not None:
        raise Refused(
            f"Source {unknown.name or unknown.index} is not a file source; this version can seed file sources only.",
            code="not_seedable",
        )
    return SeedPlan(
        from_version=report.version,
        batch=report.last_committed,
        offsets=tuple(s.offset_json for s in report.sources),
        log_offsets=tuple(s.log_offset for s in report.sources),
        committed_files=tuple(len(s.committed) for s in report.sources),
        fingerprint=report.fingerprint,
        location=report.location,
    )


def prepare(flow_location: str, plan: SeedPlan, *, recovery: str, fence: int, guard: Guard) -> Prepared:
    """Steps 1 to 3. `guard` is called before every write and raises when the caller's fence is lost.

    Raises Refused when the checkpoint is no longer as planned, RepriseError when the storage fails (full
    disk): then what was made is removed. What `guard` raises passes through, and what was made stays.
    """
    label = safe_label(recovery)
    if plan.from_version is None:
        raise Refused(
            "This checkpoint has one fixed place and no versions; only a pipeline's flow can be seeded."
        )
    with reaching(flow_location):
        flow = Store.open(flow_location)
        _unchanged(flow, plan)
        _no_newer_fence(flow, label, fence)
    query_id = str(uuid.uuid4())
    try:
        guard()
        write_record(flow, label, _record(plan, label, fence, query_id), guard)
        guard()
        flow.remove(f".reprise-{label}")
        build(flow, f".reprise-{label}", plan.from_version, plan.batch, plan.log_offsets, query_id, guard)
        found = inspect(flow.child(f".reprise-{label}").location)
        _equal(plan, query_id, found)
    except OSError as error:
        _tidy(flow, label)
        reason = error.strerror or str(error)
        raise RepriseError(
            f"The new checkpoint could not be written ({reason}); what was written is removed and nothing else "
            "was changed. Make room or mend the storage, then try again.",
            code="storage_failed",
        ) from error
    except Malformed as error:
        _tidy(flow, label)
        raise Refused(f"A file of version {plan.from_version} has changed meanwhile: {error.why}.") from error
    except Refused:
        _tidy(flow, label)
        raise
    return Prepared(plan, label, fence, query_id, found.fingerprint)


def publish(flow_location: str, prepared: Prepared, *, guard: Guard) -> int:
    """Step 4 and 5; gives the new version's number.

    Raises Refused when the old version moved, a newer one appeared or the prepared directory is not this
    attempt's; nothing is changed then.
    """
    plan, label = prepared.plan, prepared.recovery
    assert plan.to_version is not None, "prepare refuses a plan without versions"
    with reaching(flow_location):
        flow = Store.open(flow_location)
        record = read_record(flow, label)
        if record.get("fence") != prepared.fence or record.get("query_id") != prepared.query_id:
            raise Refused(
                "Another attempt has prepared this seed since; this one ends here and changed nothing."
            )
        if not flow.is_dir(f".reprise-{label}"):
            raise Refused(
                "The prepared checkpoint is no longer there; nothing was changed. Start the step again."
            )
        if fingerprint(flow.child(f".reprise-{label}").location) != prepared.fingerprint:
            raise Refused("The prepared checkpoint was changed; nothing was published. Start the step again.")
        _unchanged(flow, plan)
        guard()
        try:
            flow.rename(f".reprise-{label}", str(plan.to_version))
        except FileExistsError as error:
            raise Refused(
                f"Version {plan.to_version} has appeared meanwhile; nothing was changed. Seal a new plan."
            ) from error
        flow.sync()
    return plan.to_version


def probe(flow_location: str, *, recovery: str) -> SeedOutcome:
    """What became of a seed whose worker may have died at any point; decided from disk, reads only."""
    label = safe_label(recovery)
    with reaching(flow_location):
        flow = Store.open(flow_location)
        prepared = flow.is_dir(f".reprise-{label}")
        undone = flow.is_dir(f".reprise-{label}-undone")
        if not flow.exists(record_name(label)):
            return _without_record(label, prepared)
        try:
            record = read_record(flow, label)
        except Refused as problem:
            return SeedOutcome(SeedState.UNCLEAR, evidence=(_saw(False, problem.sentence),))
        return _with_record(flow, label, record, prepared, undone)


def _without_record(label: str, prepared: bool) -> SeedOutcome:
    note = _saw(True, f"There is no undo record of {label}; it is written before anything else.")
    if prepared:
        return SeedOutcome(
            SeedState.UNCLEAR, evidence=(note, _saw(False, "Yet there is a prepared directory."))
        )
    return SeedOutcome(SeedState.NOTHING, evidence=(note,))


def _with_record(
    flow: Store, label: str, record: Mapping[str, Any], prepared: bool, undone: bool
) -> SeedOutcome:
    target = record["to_version"]
    query_id = _query_id(flow, f"{target}/metadata")
    there = flow.exists(str(target))
    evidence = [_saw(True, f"The undo record of {label} names version {target}.")]
    if there and query_id == record["query_id"]:
        evidence.append(_saw(True, f"Version {target} is there and carries the query id of this seed."))
        if prepared:
            evidence.append(_saw(False, "The prepared directory is there too: the store copies to rename."))
            return SeedOutcome(SeedState.UNCLEAR, evidence=tuple(evidence))
        return SeedOutcome(SeedState.PUBLISHED, target, tuple(evidence))
    if there and prepared and query_id is None and not flow.local:
        evidence.append(
            _saw(False, f"Version {target} is there without a query id: a copy may have stopped.")
        )
        return SeedOutcome(SeedState.UNCLEAR, evidence=tuple(evidence))
    says = (
        f"Version {target} is there, but it is not this seed." if there else f"There is no version {target}."
    )
    evidence.append(_saw(True, says))
    if prepared:
        evidence.append(_saw(True, "The prepared directory is there under a name that Spark ignores."))
        return SeedOutcome(SeedState.PREPARED, evidence=tuple(evidence))
    if undone:
        evidence.append(_saw(True, "The seed was renamed away by an undo."))
        return SeedOutcome(SeedState.UNDONE, evidence=tuple(evidence))
    return SeedOutcome(SeedState.NOTHING, evidence=tuple(evidence))


def clean(flow_location: str, *, recovery: str) -> None:
    """Remove a prepared directory that was left over. Never touches a version."""
    label = safe_label(recovery)
    with reaching(flow_location):
        flow = Store.open(flow_location)
        flow.remove(f".reprise-{label}")
        flow.remove(f"{record_name(label)}.new")


def undo_refusal(flow_location: str, *, recovery: str, sink_head: int | None) -> str | None:
    """Why the seed can no longer be taken back, in one sentence; None when it can. Reads only."""
    label = safe_label(recovery)
    outcome = probe(flow_location, recovery=label)
    if outcome.published is None:
        return f"No checkpoint version of {label} is in place, so there is nothing to take back."
    with reaching(flow_location):
        flow = Store.open(flow_location)
        record = read_record(flow, label)
        target, batch = outcome.published, record["batch"]
        newest = versions(flow.location)[-1]
        if newest != target:
            return (
                f"Version {newest} was made after version {target}, so {target} is no longer the one in use."
            )
        commits = [int(e.name) for e in flow.entries(f"{target}/commits") if e.name.isdigit()]
    if max(commits, default=batch) > batch:
        return f"Batch {max(commits)} was committed in version {target} since; taking it back would double its rows."
    if sink_head is not None and sink_head > batch:
        return f"The table has batch {sink_head} already; taking version {target} back would lose or double rows."
    return None


def undo(flow_location: str, *, recovery: str, sink_head: int | None) -> None:
    """Rename the seeded version away, so that the old one is the newest again. Raises Refused when too late."""
    reason = undo_refusal(flow_location, recovery=recovery, sink_head=sink_head)
    if reason:
        raise Refused(reason, code="cannot_undo")
    label = safe_label(recovery)
    with reaching(flow_location):
        flow = Store.open(flow_location)
        target = read_record(flow, label)["to_version"]
        try:
            flow.rename(str(target), f".reprise-{label}-undone")
        except FileExistsError as error:
            raise Refused(
                f"{label} was undone once before; move .reprise-{label}-undone away first."
            ) from error
        flow.sync()


def _no_newer_fence(flow: Store, label: str, fence: int) -> None:
    if not flow.exists(record_name(label)):
        return
    found = read_record(flow, label)
    if found.get("fence", 0) > fence:
        raise Refused("A newer attempt of this step is at work; this one ends here and changed nothing.")
    if probe(flow.location, recovery=label).published is not None:
        raise Refused(f"Version {found['to_version']} of {label} is in place already; nothing was changed.")


def _unchanged(flow: Store, plan: SeedPlan) -> None:
    """The planned version is still the newest, and nothing in it has moved."""
    known = versions(flow.location)
    if not known or known[-1] != plan.from_version:
        raise Refused(
            f"The newest checkpoint version is {known[-1] if known else 'gone'}, planned was {plan.from_version}; "
            "nothing was changed. Seal a new plan.",
            code="stale",
        )
    if fingerprint(flow.location) != plan.fingerprint:
        raise Refused(
            f"Files of version {plan.from_version} have changed since the plan; nothing was changed. "
            "Seal a new plan.",
            code="stale",
        )


def _equal(plan: SeedPlan, query_id: str, found: CheckpointReport) -> None:
    """The new checkpoint, read by the same reader as any other, says what the plan says."""
    seen = (
        found.query_id,
        found.last_committed,
        found.last_planned,
        tuple(s.offset_json for s in found.sources),
        tuple(len(s.committed) for s in found.sources),
        sum(len(s.planned) for s in found.sources),
        len(found.state_operators),
    )
    wanted = (query_id, plan.batch, plan.batch, plan.offsets, plan.committed_files, 0, 0)
    if seen != wanted or found.blockers:
        reason = found.blockers[0].says if found.blockers else f"wanted {wanted}, found {seen}"
        raise Refused(f"The prepared checkpoint does not read back as planned: {reason} It was removed.")


def _tidy(flow: Store, label: str) -> None:
    """Remove what this attempt made; a storage that fails here too leaves it for `clean`."""
    for name in (f".reprise-{label}", f"{record_name(label)}.new", record_name(label)):
        try:
            flow.remove(name)
        except OSError:
            continue


def _query_id(flow: Store, name: str) -> str | None:
    try:
        return parse_metadata(flow.read(name, MAX_RECORD_BYTES))
    except (FileNotFoundError, NotADirectoryError, Malformed):
        return None


def _saw(proven: bool, says: str) -> Mapping[str, Any]:
    return {"proven": proven, "says": says}


def _record(plan: SeedPlan, label: str, fence: int, query_id: str) -> dict[str, Any]:
    return {
        "recovery": label,
        "fence": fence,
        "from_version": plan.from_version,
        "to_version": plan.to_version,
        "query_id": query_id,
        "batch": plan.batch,
        "offsets": list(plan.offsets),
        "fingerprint": plan.fingerprint,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
