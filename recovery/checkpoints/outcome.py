"""What became of a new checkpoint whose worker may have died at any point: decided from disk, reads only."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from recovery.checkpoints.checkpoint_slot import CheckpointSlot, recorded_place
from recovery.checkpoints.formats import Malformed, parse_metadata
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.undo_record import MAX_RECORD_BYTES, read_record, record_name, safe_label
from recovery.contracts.probes import EvidenceLine
from recovery.errors import Refused, RepriseError

MOST_NAMES: Final = 20_000
_RECORD: Final = re.compile(r"\.reprise-([A-Za-z0-9][A-Za-z0-9._-]{0,63})\.undo\.json")


class SeedState(StrEnum):
    """HALF: the fixed place is empty, because a publish or an undo died between its two renames."""

    NOTHING = "nothing"
    PREPARED = "prepared"
    HALF = "half"
    PUBLISHED = "published"
    UNDONE = "undone"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class SeedOutcome:
    """What the disk proves about a new checkpoint whose worker may have died.

    `published`: the version's number; None too for a checkpoint with a fixed place, whose `state` tells.
    """

    state: SeedState
    published: int | None = None
    evidence: tuple[EvidenceLine, ...] = ()

    @property
    def unclear(self) -> bool:
        return self.state is SeedState.UNCLEAR

    @property
    def in_place(self) -> bool:
        return self.state is SeedState.PUBLISHED


def probe_outcome(location: str, *, recovery: str) -> SeedOutcome:
    """What became of a new checkpoint whose worker may have died at any point; decided from disk, reads only."""
    label = safe_label(recovery)
    with reaching(location):
        place = recorded_place(location, label)
        room = place.room
        prepared = room.is_dir(f".reprise-{label}")
        if not room.exists(record_name(label)):
            return _without_record(label, prepared)
        try:
            record = read_record(room, label)
        except Refused as problem:
            return SeedOutcome(SeedState.UNCLEAR, evidence=(_evidence_line(False, problem.sentence),))
        seen = _judge_fixed_slot if place.fixed is not None else _judge_versioned_slot
        return seen(place, label, record, prepared)


def half_swapped(location: str) -> str:
    """The label of the recovery whose swap of a checkpoint with a fixed place has stopped between its two renames; ""
    for none. Reads only."""
    with reaching(location):
        here = Store.open(location)
        if "/" not in here.root.strip("/"):
            return ""
        try:
            names = [e.name for e in here.parent().entries("", MOST_NAMES)]
        except (FileNotFoundError, NotADirectoryError):
            return ""
    for label in (match[1] for name in names if (match := _RECORD.fullmatch(name))):
        try:
            if probe_outcome(location, recovery=label).state is SeedState.HALF:
                return label
        except RepriseError:
            continue
    return ""


def _without_record(label: str, prepared: bool) -> SeedOutcome:
    note = _evidence_line(True, f"There is no undo record of {label}; it is written before anything else.")
    if prepared:
        return SeedOutcome(
            SeedState.UNCLEAR, evidence=(note, _evidence_line(False, "Yet there is a prepared directory."))
        )
    return SeedOutcome(SeedState.NOTHING, evidence=(note,))


def _judge_versioned_slot(
    place: CheckpointSlot, label: str, record: Mapping[str, Any], prepared: bool
) -> SeedOutcome:
    room, target = place.room, record["to_version"]
    query_id = _query_id(room, f"{target}/metadata")
    is_published = room.exists(str(target))
    evidence = [_evidence_line(True, f"The undo record of {label} names version {target}.")]
    if is_published and query_id == record["query_id"]:
        evidence.append(
            _evidence_line(True, f"Version {target} is there and carries the query id of this recovery.")
        )
        if prepared:
            says = "Of the prepared directory something is left; its metadata, copied last, has arrived."
            evidence.append(_evidence_line(True, says))
        return SeedOutcome(SeedState.PUBLISHED, target, tuple(evidence))
    if is_published and query_id is None and not room.local:
        says = (
            f"Version {target} is there without a query id: a copy or a removal has stopped midway. No Spark "
            "takes it for a checkpoint; remove it by hand when no update is running."
        )
        evidence.append(_evidence_line(False, says))
        return SeedOutcome(SeedState.UNCLEAR, evidence=tuple(evidence))
    says = (
        f"Version {target} is there, but not of this recovery."
        if is_published
        else f"There is no version {target}."
    )
    evidence.append(_evidence_line(True, says))
    return _judge_unpublished(room, label, prepared, evidence)


def _judge_fixed_slot(
    place: CheckpointSlot, label: str, record: Mapping[str, Any], prepared: bool
) -> SeedOutcome:
    """A checkpoint with a fixed place: which of the three names are there tells how far it came."""
    room, name = place.room, place.fixed or ""
    # on an object store what has its metadata is whole, and what has lost it is half removed
    now = room.exists(name if room.local else f"{name}/metadata")
    before = room.exists(f".reprise-{label}-before")
    evidence = [_evidence_line(True, f"The undo record of {label} names {name}.")]
    if before and not now:
        evidence.append(
            _evidence_line(
                True,
                f"{name} is not there; the old one is whole in .reprise-{label}-before. Nothing may start.",
            )
        )
        return SeedOutcome(SeedState.HALF, evidence=tuple(evidence))
    if before and prepared:
        evidence.append(
            _evidence_line(False, "Old, new and prepared are all there: the store copies to rename.")
        )
        return SeedOutcome(SeedState.UNCLEAR, evidence=tuple(evidence))
    if before:
        evidence.append(
            _evidence_line(True, f"The new {name} is in place, the old one in .reprise-{label}-before.")
        )
        return SeedOutcome(SeedState.PUBLISHED, evidence=tuple(evidence))
    evidence.append(_evidence_line(True, f"{name} is the old one: nothing was set aside."))
    return _judge_unpublished(room, label, prepared, evidence)


def _judge_unpublished(room: Store, label: str, prepared: bool, evidence: list[EvidenceLine]) -> SeedOutcome:
    if prepared:
        evidence.append(
            _evidence_line(True, "The prepared directory is there under a name that Spark ignores.")
        )
        return SeedOutcome(SeedState.PREPARED, evidence=tuple(evidence))
    if room.is_dir(f".reprise-{label}-undone"):
        evidence.append(_evidence_line(True, "The new checkpoint was renamed away by an undo."))
        return SeedOutcome(SeedState.UNDONE, evidence=tuple(evidence))
    return SeedOutcome(SeedState.NOTHING, evidence=tuple(evidence))


def _query_id(room: Store, name: str) -> str | None:
    try:
        return parse_metadata(room.read(name, MAX_RECORD_BYTES))
    except (FileNotFoundError, NotADirectoryError, Malformed):
        return None


def _evidence_line(proven: bool, says: str) -> EvidenceLine:
    return EvidenceLine(proven=proven, says=says)
