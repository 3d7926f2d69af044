"""What top-up and deduplicate require of a flow before they change its table beside it. Pure.

Each requirement is checked once, here; its code and its words are in the table of each strategy.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from recovery.checkpoints.table_progress import reconcile_report
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.names import Strategy
from recovery.contracts.option import Blocker, BlockerCode
from recovery.sinks import delta
from recovery.sources import files
from recovery.strategies import common, full_refresh, mapped, sources, starts
from recovery.strategies.backfill import BY_ROW
from recovery.strategies.base import Facts


class UnmetRequirement(StrEnum):
    """A requirement that does not hold. What each sentence may name is in braces."""

    OF_PROGRAM = "of-program"
    NO_OWN_DELTA_TABLE = "no-own-delta-table"  # {dataset}
    SHARED_TABLE = "shared-table"  # {writers}
    BATCH_UNSETTLED = "batch-unsettled"  # {batch}
    OTHER_CODE = "other-code"
    OF_GROUPS = "of-groups"  # {steps}
    NO_KEY = "no-key"
    INPUT_SKIPPED = "input-skipped"
    START_UNKNOWN = "start-unknown"  # {source}, {why}
    READ_AGAIN = "read-again"  # {twice}
    UNCOUNTED = "uncounted"  # {key}
    COLLATION = "collation"  # {collated}


Words = Mapping[UnmetRequirement, tuple[BlockerCode, str]]


@dataclass(frozen=True)
class CorrectionCodes:
    """Codes of the blockers whose sentence is the same for every correction."""

    input_unknown: BlockerCode
    columns: BlockerCode


def block(facts: Facts, strategy: Strategy, words: Words, codes: CorrectionCodes) -> Blocker | None:
    """The first requirement that does not hold, in the words of the strategy; None where all hold."""
    return (
        common.any_block(facts)
        or next(_judge_table(facts, words), None)
        or common.unread_code(facts)
        or next(_judge_checkpoint(facts, words), None)
        or next(_judge_code(facts, strategy, words), None)
        or starts.takes_no_start(facts, strategy.value)
        or next(_judge_input(facts, words, codes), None)
        or next(_judge_counts(facts, words, codes), None)
    )


def _say(words: Words, unmet: UnmetRequirement, **values: object) -> Blocker:
    code, says = words[unmet]
    return Blocker(code=code, says=says.format(**values))


def _judge_table(facts: Facts, words: Words) -> Iterator[Blocker]:
    if facts.is_plain:
        yield _say(words, UnmetRequirement.OF_PROGRAM)
    if facts.writers:
        yield _say(words, UnmetRequirement.SHARED_TABLE, writers=", ".join(facts.writers))
    if facts.sink.kind != delta.KIND or facts.sink.declared or facts.sink.by_function:
        yield _say(words, UnmetRequirement.NO_OWN_DELTA_TABLE, dataset=facts.dataset)
    if facts.unfilled:
        says = f"{facts.unfilled} has emptied this table and filled nothing back. Resume it or roll it back first."
        yield Blocker(code=BlockerCode.BACKFILL_UNFILLED, says=says)


def _judge_checkpoint(facts: Facts, words: Words) -> Iterator[Blocker]:
    report = facts.checkpoint
    if common.has_blocker(report.findings):
        yield common.damaged(facts)
    if reconcile_report(report).last_committed != report.last_committed:
        yield _say(words, UnmetRequirement.BATCH_UNSETTLED, batch=report.last_planned)


def _judge_code(facts: Facts, strategy: Strategy, words: Words) -> Iterator[Blocker]:
    old, new = facts.old_code, facts.new_code
    is_patched = dict(new.files) != dict(facts.code.files)
    if is_patched or (old is not None and dict(old.files) != dict(new.files)):
        yield _say(words, UnmetRequirement.OTHER_CODE)
    if not mapped.one_to_one(facts):
        says = f"The sources of the code are not those of the checkpoint. Choose continue first, then {strategy.value}."
        yield Blocker(code=BlockerCode.SOURCES_DIFFER, says=says)
    steps = new.operators or ()
    if set(steps) - set(BY_ROW) or len(steps) > 1 or full_refresh.has_rows_of_another_kind(facts):
        yield _say(words, UnmetRequirement.OF_GROUPS, steps=common.names(steps))
    if not new.key:
        yield _say(words, UnmetRequirement.NO_KEY)


def _judge_input(facts: Facts, words: Words, codes: CorrectionCodes) -> Iterator[Blocker]:
    if facts.skipped_before:
        yield _say(words, UnmetRequirement.INPUT_SKIPPED)
    for source, begins in zip(facts.sources, sources.anew(facts), strict=True):
        name = sources.name_of(source)
        if source.position.kind != files.KIND and not begins.again:
            yield _say(words, UnmetRequirement.START_UNKNOWN, source=name, why=begins.why)
        if source.problem or source.spans.processed is None:
            says = (
                f"{name}: what was read of it cannot be read once more. {source.problem or ''} Make it reachable, then "
                "count again."
            )
            yield Blocker(code=codes.input_unknown, says=says)
    if again := sources.twice(facts):
        yield _say(words, UnmetRequirement.READ_AGAIN, twice=files.said_twice([f.path for f in again]))


def _judge_counts(facts: Facts, words: Words, codes: CorrectionCodes) -> Iterator[Blocker]:
    held = facts.counts.committed
    if held is None or facts.counts.table is None:
        yield _say(words, UnmetRequirement.UNCOUNTED, key=", ".join(facts.new_code.key))
        return
    if held.collated:
        yield _say(words, UnmetRequirement.COLLATION, collated=", ".join(held.collated))
    if held.unfit:
        says = (
            f"What the code yields does not fit the columns of the table: {', '.join(held.unfit)} is missing on one "
            "side, or has another type. Change the table by hand, or choose full-refresh."
        )
        yield Blocker(code=codes.columns, says=says)


def is_cut(facts: Facts) -> bool:
    """Whether input that was committed can no longer be read, or may not."""
    return bool(full_refresh.list_gone(facts)) or not all(f.whole for f in sources.anew(facts))


def forecast_reread(facts: Facts, aim: str) -> RowAmount:
    """All committed input is read once more, to this aim."""
    rows, why = facts.counts.processed, f"Every committed {sources.unit(facts)}, {aim}"
    if common.only_files(facts):
        return common.amount(rows, common.files_of(facts, "processed"), why)
    return RowAmount(rows=rows, bound=Bound.EXACT, why=why, end=sources.standing(facts))
