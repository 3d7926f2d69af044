"""All flows and all versions below a pipeline's storage root, or all versions of one flow. Reads only.

SDP keeps `<storage>/_checkpoints/<catalog>/<schema>/<table>/<flow>/<N>` (FlowSystemMetadata); nothing is ever
deleted, so older versions are what a person can go back to.
"""

from dataclasses import asdict, dataclass
from typing import Any

from recovery.checkpoints.findings import finding
from recovery.checkpoints.inspection import PARTS, VERSION, inspect_checkpoint
from recovery.checkpoints.queryids import find_shared_ids
from recovery.checkpoints.report import CheckpointReport, Finding, SourceProgress
from recovery.checkpoints.storage import Store, reaching
from recovery.errors import Unreachable

CHECKPOINTS = "_checkpoints"
FLOW_DEPTH = 6  # catalog, schema, table, flow; two more for names with further parts
MAX_FLOWS = 10_000
ONE_UPDATE_MS = 60_000  # within which flows of one update begin, one after the other


@dataclass(frozen=True)
class VersionSummary:
    """One version of a flow's checkpoint. `position`: (source, offset line) pairs of the last committed batch."""

    number: int
    location: str
    query_id: str | None
    last_committed: int | None
    last_planned: int | None
    position: tuple[tuple[str, str | None], ...]
    blockers: int


@dataclass(frozen=True)
class FlowTree:
    """One flow: the parts of its path below `_checkpoints`, its versions ascending, the newest one's report."""

    parts: tuple[str, ...]
    location: str
    versions: tuple[VersionSummary, ...]
    newest: CheckpointReport | None

    @property
    def name(self) -> str:
        return self.parts[-1]


@dataclass(frozen=True)
class Survey:
    """Flows in the order of their paths, and what is wrong between them. `whole`: False where a limit ended it."""

    location: str
    flows: tuple[FlowTree, ...]
    findings: tuple[Finding, ...] = ()
    whole: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        flows = [
            {"parts": list(f.parts), "location": f.location, "versions": [asdict(v) for v in f.versions]}
            for f in self.flows
        ]
        return {
            "location": self.location,
            "flows": flows,
            "findings": [f.as_dict() for f in self.findings],
            "whole": self.whole,
        }


def is_storage_root(location: str) -> bool:
    """Does this directory hold `_checkpoints`, or is it that directory? Raises Unreachable."""
    with reaching(location):
        store = Store.open(location)
        return store.root.rpartition("/")[2] == CHECKPOINTS or store.is_dir(CHECKPOINTS)


def survey_root(location: str) -> Survey:
    """Every flow below a storage root, `_checkpoints`, any directory within it, or one flow's directory.

    Raises Unreachable when the storage fails or the place does not exist.
    """
    with reaching(location):
        root = Store.open(location)
        if root.is_dir(CHECKPOINTS):
            root = root.child(CHECKPOINTS)
        if not root.is_dir():
            raise Unreachable(f"{location} does not exist or is a file. Check the path.")
        flows: list[FlowTree] = []
        whole = _survey_below(root, (), flows)
        return Survey(root.location, tuple(flows), tuple(_compare_flows(flows)), whole)


def _survey_below(store: Store, parts: tuple[str, ...], flows: list[FlowTree]) -> bool:
    entries = sorted((e for e in store.entries() if e.is_dir), key=lambda e: e.name)
    numbered = sorted(int(e.name) for e in entries if VERSION.fullmatch(e.name))
    if numbered and any(_is_version(store, e.name) for e in entries if VERSION.fullmatch(e.name)):
        names = {int(e.name): e.name for e in entries if VERSION.fullmatch(e.name)}
        flows.append(_survey_flow(store, parts or (store.root.rpartition("/")[2],), names))
        return len(flows) < MAX_FLOWS
    if len(parts) >= FLOW_DEPTH:
        return True
    for entry in entries:
        if entry.name.startswith(".") or entry.name in PARTS:
            continue
        if not _survey_below(store.child(entry.name), (*parts, entry.name), flows):
            return False
    return True


def _is_version(store: Store, name: str) -> bool:
    """A version holds parts of a checkpoint, or nothing yet; a table named `2024` holds flows."""
    inside = {e.name for e in store.child(name).entries()}
    return not inside or bool(inside & PARTS)


def _survey_flow(store: Store, parts: tuple[str, ...], names: dict[int, str]) -> FlowTree:
    versions, newest = [], None
    for number in sorted(names):
        report = inspect_checkpoint(store.child(names[number]).location)
        newest = report
        versions.append(
            VersionSummary(
                number,
                report.location,
                report.query_id,
                report.last_committed,
                report.last_planned,
                tuple((s.name or str(s.index), s.offset_json) for s in report.sources),
                len(report.blockers),
            )
        )
    return FlowTree(parts, store.location, tuple(versions), newest)


def _compare_flows(flows: list[FlowTree]) -> list[Finding]:
    """Flows that run under one query id; and flows of one table of which the younger one began again with the older
    one's input, and the older one ended."""
    newest = {"/".join(f.parts): f for f in flows if f.newest}
    findings = find_shared_ids(
        {name: f.newest.query_id for name, f in newest.items() if f.newest},
        {name: f.location for name, f in newest.items()},
    )
    for index, first in enumerate(flows):
        for other in flows[index + 1 :]:
            if first.parts[:-1] != other.parts[:-1] or not first.newest or not other.newest:
                continue
            if not _same_start(first.newest.sources, other.newest.sources):
                continue
            old, new = sorted((first, other), key=_oldest_planned)
            if _took_over(old, new):
                findings.append(finding("FLOW_RENAMED", new.location, old=old.name, new=new.name))
    return findings


def _took_over(old: FlowTree, new: FlowTree) -> bool:
    """Has the older flow planned nothing since the younger one began?

    Flows that read the same files for good run side by side, in one update: of these, one is done an instant before
    the other begins, and has read all that the other has.
    """
    ended = max((b["timestamp_ms"] or 0 for b in old.newest.batches), default=0) if old.newest else 0
    since = _oldest_planned(new)[0] - ended
    return since > 0 and (since > ONE_UPDATE_MS or _files_read(new) > _files_read(old))


def _files_read(flow: FlowTree) -> int:
    return sum(len(s.committed) + len(s.planned) for s in flow.newest.sources) if flow.newest else 0


def _oldest_planned(flow: FlowTree) -> tuple[int, str]:
    """When the oldest batch that is still known was planned."""
    stamps = [b["timestamp_ms"] for b in flow.newest.batches if b["timestamp_ms"]] if flow.newest else []
    return min(stamps, default=0), flow.name


def _same_start(first: tuple[SourceProgress, ...], other: tuple[SourceProgress, ...]) -> bool:
    """Every source's first input file is the same. Only file sources tell where they began."""
    if not first or len(first) != len(other):
        return False
    pairs = [(_first_path(a), _first_path(b)) for a, b in zip(first, other, strict=True)]
    return all(a is not None and a == b for a, b in pairs)


def _first_path(source: SourceProgress) -> str | None:
    entry = source.committed.oldest or source.planned.oldest
    return entry.path if entry else None
