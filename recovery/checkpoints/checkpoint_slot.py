"""Where a checkpoint lives, and which names may change there: numbered versions, or one fixed place."""

import re
from dataclasses import dataclass

from recovery.checkpoints.inspection import list_versions
from recovery.checkpoints.storage import Store
from recovery.checkpoints.undo_record import read_record, record_name
from recovery.errors import Refused

NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True)
class NextVersion:
    """What every plan of a new checkpoint holds."""

    #: None: the checkpoint has one fixed place
    from_version: int | None
    #: its last committed batch; None: none
    batch: int | None
    #: per source, at `batch`
    offsets: tuple[str | None, ...]
    #: of the old checkpoint as it was judged
    fingerprint: str
    location: str
    #: what the table held then; None: not known
    sink_head: int | None = None

    @property
    def to_version(self) -> int | None:
        return None if self.from_version is None else self.from_version + 1


@dataclass(frozen=True)
class CheckpointSlot:
    """`room`: the directory whose names change. `fixed`: the checkpoint's own name, None for numbered versions."""

    room: Store
    fixed: str | None

    def current(self, version: int | None) -> Store:
        """The directory of the checkpoint in use: `0007` counts as version 7 too."""
        if self.fixed is not None:
            return self.room.child(self.fixed)
        names = [e.name for e in self.room.entries() if e.is_dir and NUMBER.fullmatch(e.name)]
        return self.room.child(min((n for n in names if int(n) == version), key=len, default=str(version)))

    @property
    def location(self) -> str:
        return self.room.location if self.fixed is None else self.room.child(self.fixed).location


def place_for(location: str, plan: NextVersion) -> CheckpointSlot:
    """Where this plan's names are changed. Raises Refused for one version of a flow named by itself."""
    here = Store.open(location)
    if plan.from_version is not None:
        return CheckpointSlot(here, None)
    if NUMBER.fullmatch(here.name):
        raise Refused(
            f"{location} looks like one version of a flow's checkpoint. Name the flow's directory above it.",
            code="one_version",
        )
    return CheckpointSlot(here.parent(), here.name)


def recorded_place(location: str, label: str) -> CheckpointSlot:
    """Where this label's record is: in the flow's directory, or above a checkpoint with a fixed place."""
    here = Store.open(location)
    if here.exists(record_name(label)) or "/" not in here.root.strip("/"):
        return CheckpointSlot(here, None)
    above = here.parent()
    try:
        own_name = above.exists(record_name(label)) and read_record(above, label).get("name") == here.name
    except Refused:
        own_name = not here.is_dir() or not list_versions(here.location)
    return CheckpointSlot(above, here.name) if own_name else CheckpointSlot(here, None)


def name_slot(place: CheckpointSlot, version: int | None) -> str:
    return f"checkpoint {place.fixed}" if place.fixed is not None else f"version {version}"
