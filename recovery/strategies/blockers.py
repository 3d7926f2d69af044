"""Why a strategy cannot run: a code that decides, the step of the wizard that can settle it, and words for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class BlockerCode(StrEnum):
    """What stands in a strategy's way. Stable: stored with options, shown to programs."""

    UPDATE_RUNNING = "update_running"
    STORAGE_SHARED = "storage_shared"
    SOURCE_READ_TWICE = "source_read_twice"
    CHECKPOINT_DAMAGED = "checkpoint_damaged"
    CODE_NOT_ANALYSED = "code_not_analysed"
    CODE_KEEPS_STATE = "code_keeps_state"
    CODE_KEEPS_SAME_STATE = "code_keeps_same_state"
    CODE_KEEPS_NO_STATE = "code_keeps_no_state"
    STATE_DIFFERS = "state_differs"
    OLD_CODE_UNKNOWN = "old_code_unknown"
    OLD_CODE_NOT_ANALYSED = "old_code_not_analysed"
    OLD_SOURCES_UNKNOWN = "old_sources_unknown"
    NOTHING_TO_PUT_BACK = "nothing_to_put_back"
    PLANNED_ELSEWHERE = "planned_elsewhere"
    SOURCES_DIFFER = "sources_differ"
    SOURCES_SEEN_OTHERWISE = "sources_seen_otherwise"
    SOURCES_UNCONFIRMED = "sources_unconfirmed"
    SOURCE_NOT_SEEDABLE = "source_not_seedable"
    SOURCE_WITHOUT_START = "source_without_start"
    START_NOT_FOUND = "start_not_found"
    START_NEEDED = "start_needed"
    START_NOT_TAKEN = "start_not_taken"
    INPUT_GONE = "input_gone"
    READER_FAILS = "reader_fails"
    SEED_REFUSED = "seed_refused"
    SINK_BARS = "sink_bars"
    SINK_NOT_EMPTIED = "sink_not_emptied"
    BATCH_UNSETTLED = "batch_unsettled"
    NO_WATERMARK = "no_watermark"
    NOTHING_DAMAGED = "nothing_damaged"
    NOT_MENDABLE = "not_mendable"
    DAMAGE_HARMLESS = "damage_harmless"
    MENDING_UNCONFIRMED = "mending_unconfirmed"
    RESET_LEAVES_NO_STATE = "reset_leaves_no_state"
    RESET_LOSES = "reset_loses"
    RESET_DOUBLES = "reset_doubles"
    RESET_UNTOLD = "reset_untold"
    RESET_BY_CHANCE = "reset_by_chance"


class SettledBy(StrEnum):
    """A later choice of the same recovery that can take a blocker away."""

    PATCH = "patch"  # other code: the sources that it reads and the state that it keeps are decided there
    START = "start"  # where a source starts
    SOURCES = "sources"  # which source goes on as which


SETTLED: Mapping[BlockerCode, SettledBy] = {
    BlockerCode.CODE_NOT_ANALYSED: SettledBy.PATCH,
    BlockerCode.CODE_KEEPS_STATE: SettledBy.PATCH,
    BlockerCode.CODE_KEEPS_SAME_STATE: SettledBy.PATCH,
    BlockerCode.CODE_KEEPS_NO_STATE: SettledBy.PATCH,
    BlockerCode.STATE_DIFFERS: SettledBy.PATCH,
    BlockerCode.OLD_CODE_UNKNOWN: SettledBy.PATCH,
    BlockerCode.OLD_CODE_NOT_ANALYSED: SettledBy.PATCH,
    BlockerCode.OLD_SOURCES_UNKNOWN: SettledBy.PATCH,
    BlockerCode.NOTHING_TO_PUT_BACK: SettledBy.PATCH,
    BlockerCode.SOURCES_DIFFER: SettledBy.PATCH,
    BlockerCode.READER_FAILS: SettledBy.PATCH,
    BlockerCode.SOURCES_SEEN_OTHERWISE: SettledBy.SOURCES,
    BlockerCode.SOURCES_UNCONFIRMED: SettledBy.SOURCES,
    BlockerCode.SOURCE_WITHOUT_START: SettledBy.START,
    BlockerCode.START_NOT_FOUND: SettledBy.START,
    BlockerCode.START_NEEDED: SettledBy.START,
    BlockerCode.INPUT_GONE: SettledBy.START,
}


@dataclass(frozen=True)
class Blocker:
    """Why a strategy cannot run for this flow now."""

    #: decides what can be done about it
    code: BlockerCode
    #: the reason for people: made from the facts, never read again
    says: str

    @property
    def settled_by(self) -> SettledBy | None:
        """The choice that can take it away; None: nothing that this recovery still asks can."""
        return SETTLED.get(self.code)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON, as options are stored."""
        return {"code": self.code.value, "settled_by": self.settled_by.value if self.settled_by else None}


def stored_blocker(option: Mapping[str, Any]) -> Blocker | None:
    """The blocker of an option as it was stored (`Option.as_dict`); None where it can run, or told no code.

    Options that were stored before blockers had codes tell a reason only: they stay blocked until they are counted
    again.
    """
    told = option.get("blocker") or {}
    known = next((code for code in BlockerCode if code.value == told.get("code")), None)
    return Blocker(known, str(option.get("blocked") or "")) if known else None
