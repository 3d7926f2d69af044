"""One strategy judged for one flow: what pages compare, and what a plan is sealed from."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from pydantic import (
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from recovery.contracts.amounts import RowAmount
from recovery.contracts.criteria import Criterion
from recovery.contracts.effort import Effort
from recovery.contracts.findings import Finding
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import Strategy
from recovery.contracts.positions import PositionChange, SourceMapping
from recovery.contracts.steps import PlannedStep
from recovery.contracts.value import Flag, Value


class BlockerCode(StrEnum):
    """What stands in a strategy's way. Stable: stored with options, shown to programs."""

    UPDATE_RUNNING = "update_running"
    STRATEGY_NOT_ALLOWED = "strategy_not_allowed"
    STORAGE_SHARED = "storage_shared"
    QUERY_ID_SHARED = "query_id_shared"
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
    NO_REFRESH = "no_refresh"
    BATCH_UNSETTLED = "batch_unsettled"
    NO_WATERMARK = "no_watermark"
    REPLAY_DIFFERS = "replay_differs"
    REPLAY_ORDER_MATTERS = "replay_order_matters"
    REPLAY_MODE_UNKNOWN = "replay_mode_unknown"
    REPLAY_INPUT_GONE = "replay_input_gone"
    REPLAY_INPUT_CHANGED = "replay_input_changed"
    REPLAY_INPUT_UNKNOWN = "replay_input_unknown"
    REPLAY_OF_PROGRAM = "replay_of_program"
    NO_SCRATCH_PLACE = "no_scratch_place"
    REFRESH_SHARED_TABLE = "refresh_shared_table"
    BACKFILL_OF_TABLE = "backfill_of_table"
    BACKFILL_OF_GROUPS = "backfill_of_groups"
    BACKFILL_NO_KEY = "backfill_no_key"
    BACKFILL_KEY_REPEATS = "backfill_key_repeats"
    BACKFILL_COLUMNS = "backfill_columns"
    BACKFILL_LEFT_OUT = "backfill_left_out"
    BACKFILL_UNFILLED = "backfill_unfilled"
    BACKFILL_UNCOUNTED = "backfill_uncounted"
    BACKFILL_PASSES_OVER = "backfill_passes_over"
    TOP_UP_OF_TABLE = "top_up_of_table"
    TOP_UP_OF_PROGRAM = "top_up_of_program"
    TOP_UP_OF_GROUPS = "top_up_of_groups"
    TOP_UP_SHARED_TABLE = "top_up_shared_table"
    TOP_UP_OTHER_CODE = "top_up_other_code"
    TOP_UP_NO_KEY = "top_up_no_key"
    TOP_UP_INPUT_UNKNOWN = "top_up_input_unknown"
    TOP_UP_READ_AGAIN = "top_up_read_again"
    TOP_UP_UNCOUNTED = "top_up_uncounted"
    TOP_UP_COLLATION = "top_up_collation"
    TOP_UP_COLUMNS = "top_up_columns"
    TOP_UP_TABLE_REPEATS = "top_up_table_repeats"
    TOP_UP_KEY_REPEATS = "top_up_key_repeats"
    TOP_UP_FIRST_NOT_KNOWN = "top_up_first_not_known"
    NOTHING_MISSING = "nothing_missing"
    DEDUPLICATE_OF_TABLE = "deduplicate_of_table"
    DEDUPLICATE_OF_PROGRAM = "deduplicate_of_program"
    DEDUPLICATE_OF_GROUPS = "deduplicate_of_groups"
    DEDUPLICATE_SHARED_TABLE = "deduplicate_shared_table"
    DEDUPLICATE_OTHER_CODE = "deduplicate_other_code"
    DEDUPLICATE_NO_KEY = "deduplicate_no_key"
    DEDUPLICATE_INPUT_UNKNOWN = "deduplicate_input_unknown"
    DEDUPLICATE_INPUT_GONE = "deduplicate_input_gone"
    DEDUPLICATE_READ_AGAIN = "deduplicate_read_again"
    DEDUPLICATE_UNCOUNTED = "deduplicate_uncounted"
    DEDUPLICATE_COLLATION = "deduplicate_collation"
    DEDUPLICATE_COLUMNS = "deduplicate_columns"
    DEDUPLICATE_KEY_REPEATS = "deduplicate_key_repeats"
    DEDUPLICATE_FIRST_NOT_KNOWN = "deduplicate_first_not_known"
    DEDUPLICATE_ROWS_DIFFER = "deduplicate_rows_differ"
    NOTHING_REPEATED = "nothing_repeated"
    NOTHING_DAMAGED = "nothing_damaged"
    STATE_UNREAD = "state_unread"
    NOT_MENDABLE = "not_mendable"
    DAMAGE_HARMLESS = "damage_harmless"
    MENDING_UNCONFIRMED = "mending_unconfirmed"
    RESET_LEAVES_NO_STATE = "reset_leaves_no_state"
    RESET_LOSES = "reset_loses"
    RESET_DOUBLES = "reset_doubles"
    RESET_UNTOLD = "reset_untold"
    RESET_BY_CHANCE = "reset_by_chance"
    TARGET_NEEDED = "target_needed"
    TARGET_NOT_FOUND = "target_not_found"
    BATCH_NOT_KEPT = "batch_not_kept"
    NOTHING_AFTER = "nothing_after"
    SINK_NOT_PUT_BACK = "sink_not_put_back"
    OTHER_WRITERS = "other_writers"


class SettledBy(StrEnum):
    """A later choice of the same recovery that can take a blocker away."""

    PATCH = "patch"  # other code: the sources that it reads and the state that it keeps are decided there
    START = "start"  # where a source starts
    SOURCES = "sources"  # which source goes on as which
    TARGET = "target"  # where a replay goes back to


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
    BlockerCode.REPLAY_DIFFERS: SettledBy.PATCH,
    BlockerCode.REPLAY_ORDER_MATTERS: SettledBy.PATCH,
    BlockerCode.BACKFILL_OF_GROUPS: SettledBy.PATCH,
    BlockerCode.BACKFILL_COLUMNS: SettledBy.PATCH,
    BlockerCode.BACKFILL_LEFT_OUT: SettledBy.PATCH,
    BlockerCode.SOURCES_SEEN_OTHERWISE: SettledBy.SOURCES,
    BlockerCode.SOURCES_UNCONFIRMED: SettledBy.SOURCES,
    BlockerCode.SOURCE_WITHOUT_START: SettledBy.START,
    BlockerCode.START_NOT_FOUND: SettledBy.START,
    BlockerCode.START_NEEDED: SettledBy.START,
    BlockerCode.INPUT_GONE: SettledBy.START,
    BlockerCode.TARGET_NEEDED: SettledBy.TARGET,
    BlockerCode.TARGET_NOT_FOUND: SettledBy.TARGET,
    BlockerCode.BATCH_NOT_KEPT: SettledBy.TARGET,
    BlockerCode.NOTHING_AFTER: SettledBy.TARGET,
}


class Blocker(Value):
    """Why a strategy cannot run for this flow now."""

    code: BlockerCode | None
    """Decides what can be done about it. None: of an option that was stored before blockers had codes, or by a newer
    release; such an option stays blocked until it is counted again."""
    says: str
    """The reason for people: made from the facts, never read again. Stored as `blocked`, beside the code."""

    @property
    def settled_by(self) -> SettledBy | None:
        """The choice that can take it away; None: nothing that this recovery still asks can."""
        return None if self.code is None else SETTLED.get(self.code)


class Option(Value):
    """One strategy judged for one flow."""

    strategy: Strategy
    """Which one."""
    title: str
    """Its name for people."""
    summary: str
    """What it does, in a few words."""
    blocker: Blocker | None
    """Why it cannot run; None: it can."""
    recommended: Flag = False
    """Whether it is the gentlest that can run and neither loses nor doubles a row."""
    undoable: Flag = True
    """Whether `rollback` is a way back, while it is open."""
    forecast: Forecast
    """What it will do to rows."""
    findings: tuple[Finding, ...]
    """What a person should know before choosing it."""
    steps: tuple[PlannedStep, ...]
    """What a plan does, in order."""
    criteria: tuple[Criterion, ...]
    """What the proof measures."""
    rollback: str
    """How it is undone and until when, for people."""
    code_live: str
    """Whether a change of the code is live then, for people."""
    table_meanwhile: str
    """What readers of the table see meanwhile, for people."""
    positions: tuple[PositionChange, ...] = ()
    """Each source before and after."""
    mapping: SourceMapping | None = None
    """Which source goes on as which; None: they are one to one."""
    effort: Effort | None = None
    """What it asks for; None: not measured, or of an option that was stored before."""

    @property
    def blocked(self) -> str | None:
        """Why it cannot run, in words for people; None: it can."""
        return None if self.blocker is None else self.blocker.says

    def with_downstream(self, forecast: Forecast) -> "Option":
        """The same option, whose forecast also says what becomes of what reads the table."""
        return self._with(forecast=forecast)

    def with_seconds(self, seconds: float) -> "Option":
        """The same option, whose forecast takes so long."""
        return self._with(forecast=self.forecast.with_seconds(seconds))

    def with_effort(self, effort: Effort) -> "Option":
        """The same option, with what it asks for."""
        return self._with(effort=effort)

    def barred(self, blocker: Blocker) -> "Option":
        """The same option, which cannot run for this reason."""
        return self._with(blocker=blocker, recommended=False)

    def with_steps(self, steps: tuple[PlannedStep, ...], *criteria: Criterion) -> "Option":
        """The same option with these steps, and further criteria."""
        return self._with(steps=steps, criteria=(*self.criteria, *criteria))

    def weighed(self, *, recommended: bool, findings: tuple[Finding, ...]) -> "Option":
        """The same option beside the others: whether it is the one to recommend, with further findings."""
        return self._with(recommended=recommended, findings=(*self.findings, *findings))

    def with_loss(self, lost: RowAmount, finding: Finding) -> "Option":
        """The same option with another loss, and the finding that explains it."""
        forecast = self.forecast.model_copy(update={"lost": lost})
        return self._with(forecast=forecast, findings=(*self.findings, finding))

    def _with(self, **changed: Any) -> "Option":
        return self.model_copy(update=changed)

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """From a call, or from what is stored: there the blocker's words and its code are apart."""
        if not isinstance(given, Mapping) or "blocked" not in given:
            return handler(given)
        fields = {**given, "blocker": _stored_blocker(given)}
        del fields["blocked"]
        if "undoable" not in fields:  # stored before options had it
            fields["undoable"] = fields.get("strategy") != Strategy.FULL_REFRESH
        return handler(fields)

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        stored: dict[str, Any] = {}
        for name, value in handler(self).items():
            if name == "blocker":
                stored["blocked"] = self.blocked
                value = _stored_code(self.blocker)
            stored[name] = value
        return stored


def _stored_blocker(stored: Mapping[str, Any]) -> dict[str, Any] | None:
    says = stored["blocked"]
    code = (stored.get("blocker") or {}).get("code")
    return None if not says else {"code": code if code in tuple(BlockerCode) else None, "says": says}


def _stored_code(blocker: Blocker | None) -> dict[str, Any] | None:
    """The code of a blocker, and what settles it."""
    if blocker is None or blocker.code is None:
        return None
    settled_by = blocker.settled_by
    return {"code": blocker.code.value, "settled_by": settled_by.value if settled_by else None}
