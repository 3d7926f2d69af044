"""What several strategies say in the same way: amounts, steps, the criteria every recovery ends with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recovery.checkpoints.findings import advise_program
from recovery.checkpoints.held import HeldState, find_dedupe
from recovery.checkpoints.report import Severity, StateOperator
from recovery.checkpoints.table_progress import reconcile_report
from recovery.contracts import codec
from recovery.contracts.amounts import Bound, RowAmount, joint_bound
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import (
    AcceptedRepeats,
    ExpectedCounts,
    ExpectedFiles,
    ExpectedGrowth,
    ExpectedKeys,
    ExpectedNothing,
    ExpectedOthers,
    ExpectedPosition,
    ExpectedRows,
    ExpectedRowsBefore,
    ExpectedValue,
)
from recovery.contracts.names import StepKind, Strategy
from recovery.contracts.option import Blocker, BlockerCode
from recovery.contracts.steps import PlannedStep, UpdateArgs
from recovery.sources import files
from recovery.sources.base import InputFile
from recovery.strategies.base import CodeFacts, Counts, Facts, KeyKind
from recovery.strategies.sinks import is_table, not_measured
from recovery.strategies.sources import number_of

OPERATOR_WORDS = {
    "dedupe": "dropDuplicates",
    "dedupeWithinWatermark": "dropDuplicatesWithinWatermark",
    "stateStoreSave": "aggregation",
    "symmetricHashJoin": "stream-stream join",
    "globalLimit": "limit",
    "sessionWindowStateStoreSaveExec": "session window aggregation",
    "flatMapGroupsWithState": "flatMapGroupsWithState",
    "transformWithStateInPySparkExec": "transformWithState",
    "transformWithStateInPandasExec": "transformWithState",
}


STATE_ANEW = "replay what was processed for its state (rebuild), go back and build it again (reread)"


def word(operator: str) -> str:
    """The name people know a stateful operator by."""
    return OPERATOR_WORDS.get(operator, operator)


def names(operators: Sequence[str]) -> str:
    """Stateful operators in people's words, or that there is none."""
    return ", ".join(word(o) for o in operators) or "no stateful step"


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 row`, `2 rows`; `many`: the plural that no `s` makes."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def files_of(facts: Facts, which: str) -> tuple[InputFile, ...]:
    """The `processed` or `waiting` files of all sources together."""
    return tuple(f for s in facts.sources for f in getattr(s, which))


def only_files(facts: Facts) -> bool:
    """Whether every source is a list of files."""
    return all(s.position.kind == files.KIND for s in facts.sources)


def name_of(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def amount(
    rows: int | None,
    of: Sequence[InputFile],
    why: str,
    bound: Bound = Bound.EXACT,
) -> RowAmount:
    """An amount over these files."""
    return RowAmount(
        rows=rows,
        bound=bound,
        why=why,
        files=len(of),
        start=name_of(of[0].path) if of else None,
        end=name_of(of[-1].path) if of else None,
    )


def all_files(facts: Facts) -> int:
    """How many files stand in batches, or will, where reading goes on as it stood."""
    return sum(number_of(s) for s in facts.sources)


def all_there(facts: Facts) -> int:
    """How many files an empty checkpoint reads: those too that Spark passes over now."""
    return all_files(facts) + len(files_of(facts, "ignored"))


def table_after(facts: Facts, new_rows: int | None) -> int | None:
    """Rows of the table once `new_rows` came to it; None where one of both is not known, or a function writes it."""
    table = facts.counts.table
    return None if new_rows is None or table is None or facts.sink.by_function else table + new_rows


def seconds(facts: Facts, updates: int, *, more: float = 0.0) -> float | None:
    """How long it takes: so many usual updates, and what is done beside them."""
    usual = facts.usual_update_seconds
    return None if usual is None else usual * updates + more


def readable(facts: Facts) -> str:
    """What readers of a table see meanwhile that is left as it is."""
    table = facts.counts.table
    return "Readable" + ("" if table is None else f", {plural(table, 'row')}")


def until_committed(last: int | None, then: str) -> str:
    """How long a way back is open after batch `last`, and what it is."""
    return f"Until batch {0 if last is None else last + 1} is committed: {then}"


def describe_way_back(facts: Facts) -> str:
    """What a rollback does to the checkpoint: a plain stream's has one place, a flow's has versions."""
    if facts.is_plain:
        return "two renames put the old checkpoint back into its place."
    return "the new version is renamed away and the old one is in use again."


def describe_old(facts: Facts) -> str:
    """What becomes of the old checkpoint when a seeded one is put into place."""
    if facts.is_plain:
        kept = f", as .reprise-{facts.recovery}-before" if facts.recovery else ""
        return f"Two renames put it into place; the old one is kept next to it{kept}."
    return "The old version stays untouched."


QUERY_ID: Final = "QUERY_ID_SHARED"


def any_block(facts: Facts, *, anew: bool = False) -> Blocker | None:
    """Why nothing at all can be done to this flow, a full refresh neither; None when it can.

    `anew`: the query begins under a new id, which ends that another flow has the same."""
    if facts.active_update:
        says = (
            "The stream runs: stop it first."
            if facts.is_plain
            else f"Update {facts.active_update} is running: stop the pipeline first."
        )
        return Blocker(code=BlockerCode.UPDATE_RUNNING, says=says)
    if places := [f for f in facts.between if f.code != QUERY_ID]:
        return Blocker(code=BlockerCode.STORAGE_SHARED, says=f"{places[0].says} {places[0].do}")
    if facts.between and not anew:
        says = f"{facts.between[0].says} {facts.between[0].do}"
        return Blocker(code=BlockerCode.QUERY_ID_SHARED, says=says)
    twin = next((s for s in facts.checkpoint.sources if s.twin_of is not None), None)
    if twin is not None:
        return Blocker(
            code=BlockerCode.SOURCE_READ_TWICE,
            says=f"The code reads source {twin.twin_of} twice (its second line is {twin.index}); this version counts a "
            "source's files for one place in the code only.",
        )
    return None


def unread_code(facts: Facts) -> Blocker | None:
    """Why nothing can be said of the code that will run; None when it was analysed."""
    if facts.new_code.operators is None and facts.new_code.problem:
        says = f"The code could not be analysed: {facts.new_code.problem}"
        return Blocker(code=BlockerCode.CODE_NOT_ANALYSED, says=says)
    return None


def find_unsettled_batch(facts: Facts, then: str) -> Blocker | None:
    """That only the table has finished the planned batch; None where it has not. `then`: what to do once it is done."""
    if reconcile_report(facts.checkpoint) is facts.checkpoint:
        return None
    do = "Put the old code back (revert)"
    if has_damaged_state(facts):
        do = "Put the lost state files back from a backup, start the stream"
    says = (
        f"The table holds batch {facts.checkpoint.last_planned}, which the checkpoint has not committed. {do}, let it "
        f"finish that batch, then {then}."
    )
    return Blocker(code=BlockerCode.BATCH_UNSETTLED, says=says)


def damaged(facts: Facts) -> Blocker:
    """That the checkpoint itself is damaged, and what to do; of one with a finding that blocks."""
    first = facts.checkpoint.blockers[0]
    do = advise_program(first.code, first.do) if facts.is_plain else first.do
    says = f"The checkpoint itself is damaged: {first.says} {do}"
    return Blocker(code=BlockerCode.CHECKPOINT_DAMAGED, says=says)


def other_code(facts: Facts) -> bool:
    """Whether the code is known not to be the one whose state it is: steps of the same names may store other columns.

    Spark compares keys and values of a store only when a batch runs (StateSchemaCompatibilityChecker); where that is
    what the flow fails with, today's code is another one, whether the old one is known or not.
    """
    if facts.state_refused and dict(facts.new_code.files) == dict(facts.code.files):
        return True
    return facts.old_code is not None and dict(facts.old_code.files) != dict(facts.new_code.files)


def has_useless_state(facts: Facts) -> bool:
    """Whether the checkpoint's state is of no use to the code: another code made it, or a restart cannot load it."""
    return has_damaged_state(facts) or other_code(facts)


def keeps_same_state(facts: Facts) -> bool:
    """Whether the code has the steps that the checkpoint holds state for, and that state may be of use to it."""
    steps = tuple(o.name for o in facts.checkpoint.state_operators)
    return facts.new_code.operators == steps and not has_useless_state(facts)


WHOLE_STATE: Final = frozenset(
    ("STATE_AHEAD", "STATE_IDS_MISSING", "STATE_NEWER_FORMAT", "STATE_PROVIDER_DIFFERS")
)
"""Blockers over state that is whole: a setting, another release, a repaired commit file or the removal of later files
makes it load again."""


def block_whole_state(facts: Facts) -> Blocker | None:
    """That the state is whole, and what makes it load again; None where nothing keeps it from that."""
    whole = next((f for f in facts.checkpoint.blockers if f.code in WHOLE_STATE), None)
    if whole is None:
        return None
    says = f"The state of the checkpoint is whole. {whole.says} {whole.do}"
    return Blocker(code=BlockerCode.CODE_KEEPS_SAME_STATE, says=says)


def has_damaged_state(facts: Facts) -> bool:
    """Whether a restart cannot load the state of the checkpoint, as some of it is gone or damaged."""
    codes = {f.code for f in facts.checkpoint.blockers if f.code.startswith("STATE_")}
    return bool(codes - WHOLE_STATE)


def count_known_keys(facts: Facts) -> int | None:
    """Keys that the state of a dropDuplicates holds; None: the code keeps other state too, or none, or they were not
    counted."""
    operators = facts.checkpoint.state_operators
    if [o.name for o in operators] != ["dedupe"]:
        return None
    held = _find_held(facts, operators[0])
    return operators[0].rows if held is None or held.entries is None else held.entries


def _find_held(facts: Facts, operator: StateOperator) -> HeldState | None:
    return next((h for h in facts.held if h.operator_id == operator.operator_id), None)


def knows_every_key(facts: Facts, code: CodeFacts) -> bool:
    """Whether the state of a dropDuplicates may hold the key of each row of the table, so that none is written again.
    It does not where it began empty behind them. With a watermark it forgets keys whose repeats come too late. Where
    `code` makes several rows of a key, or none, their numbers say nothing."""
    operator, table = find_dedupe(facts.checkpoint), facts.counts.table
    if operator is None or table is None or code.is_row_per_key is False:
        return True
    keys = count_known_keys(facts)
    if keys is None:  # too large to be counted, or in a form that is not known
        return _find_held(facts, operator) is None
    return keys + _count_held_rows(facts) >= table


def _count_held_rows(facts: Facts) -> int:
    """Rows that the table may have of a batch that only it has finished: at most those that wait. Spark runs that batch
    again, which puts their keys into the state, and writes none."""
    is_held = reconcile_report(facts.checkpoint) is not facts.checkpoint
    return (facts.counts.waiting or 0) if is_held else 0


def count_fresh_rows(facts: Facts, code: CodeFacts, rows: Counts) -> int | None:
    """Rows that a dropDuplicates which keeps its state writes of those that wait; None: the code keeps other state, or
    not every key is known. `rows`: what the code yields."""
    return rows.fresh_waiting if code.operators == ("dedupe",) and knows_every_key(facts, code) else None


def add_unknown_keys(facts: Facts, doubled: RowAmount, code: CodeFacts, rows: Counts) -> RowAmount:
    """With the waiting rows whose key the table holds and the state of a dropDuplicates may not: they pass it. `code`:
    what will run, `rows`: what it yields."""
    if knows_every_key(facts, code):
        return doubled
    keys, table = count_known_keys(facts), facts.counts.table
    why = (
        "How many keys dropDuplicates knows was not counted: a row whose key it does not know passes."
        if keys is None
        else f"dropDuplicates knows {keys:,} keys of the table's {table:,} rows: a row that repeats another one passes."
    )
    waiting, fresh = rows.waiting, rows.fresh_waiting
    if doubled.rows is None or waiting is None or fresh is None:
        return codec.change(doubled, rows=None, bound=Bound.UNKNOWN, why=f"{doubled.why} {why}")
    if waiting == fresh:
        return doubled
    bound = joint_bound((doubled.bound, Bound.AT_MOST))
    return codec.change(doubled, rows=doubled.rows + waiting - fresh, bound=bound, why=f"{doubled.why} {why}")


def known_keys(facts: Facts) -> str:
    """`12 keys`, where the state of a dropDuplicates tells the number; else `keys`."""
    keys = count_known_keys(facts)
    return "keys" if keys is None else plural(keys, "key")


def state_keys(facts: Facts) -> str:
    """`12 keys`, where the state of a dropDuplicates tells the number; else the operators."""
    if facts.back is not None:  # the checkpoint of then was looked at without its state
        return ", ".join(word(o.name) for o in facts.back.operators) or "none"
    held = [word(o.name) for o in facts.checkpoint.state_operators]
    keys = known_keys(facts)
    if not held:
        return "none"
    return ", ".join(held) if keys == "keys" else keys


def state_dropped(facts: Facts) -> str:
    """What becomes of the checkpoint's state where none is carried over."""
    return f"Dropped: {state_keys(facts)}" if facts.checkpoint.state_operators else "None to drop"


def has_blocker(findings: Sequence[Any]) -> bool:
    return any(f.severity is Severity.BLOCKER for f in findings)


def steps(patch: bool, *middle: PlannedStep) -> tuple[PlannedStep, ...]:
    """Stop and verify around what a strategy does; the patch step only where code changes, and a backup before what
    is changed by us, code or checkpoint: an update that empties a table leaves nothing to go back to."""
    first = [
        PlannedStep(
            kind=StepKind.STOP,
            says="Prove that nothing runs, and that nothing has moved since the plan.",
        )
    ]
    if patch or any(s.kind is StepKind.SEED for s in middle):
        first.append(
            PlannedStep(
                kind=StepKind.BACKUP,
                says="Keep the source as it is and what the checkpoint goes back to; read it back.",
            )
        )
    if patch:
        first.append(
            PlannedStep(
                kind=StepKind.PATCH,
                says="Write the changed source and read it back.",
            )
        )
    return (
        *first,
        *middle,
        PlannedStep(kind=StepKind.VERIFY, says="Measure the criteria of this plan on the data."),
    )


def code_that_runs(facts: Facts, strategy: Strategy) -> CodeFacts | None:
    """The code that a strategy goes on with; None: not known."""
    return facts.old_code if strategy is Strategy.REVERT else facts.new_code


def whole_rows(code: CodeFacts) -> bool:
    """Whether rows are compared in every column though a key is known: that of a step which the code has no more.

    The code then yields each row as it is, and no other one with the same key in its place.
    """
    return code.key_kind in (KeyKind.OLD_CODE, KeyKind.STATE)


@dataclass(frozen=True)
class Repeats:
    """Rows that a plan lets the rerun write beyond the first of their key. `bound`: what the number is."""

    rows: int | None
    bound: Bound

    @property
    def none(self) -> bool:
        return self.rows == 0 and self.bound is Bound.EXACT

    @property
    def accepted(self) -> AcceptedRepeats:
        """The same, as a plan holds it."""
        return AcceptedRepeats(rows=self.rows, bound=self.bound)


def repeats_of(doubled: RowAmount, code: CodeFacts, *, written: int | None = None) -> Repeats:
    """As forecast. By a key that a person named no one can tell how often a dropDuplicates by other columns repeats
    it; but no more rows repeat it than are written (`written`, at most; None: not known)."""
    is_bound = doubled.bound is Bound.AT_MOST and written is not None and (doubled.rows or 0) >= written
    if code.key_kind is KeyKind.NAMED and code.operators and not is_bound:
        return Repeats(None, Bound.UNKNOWN)
    return Repeats(doubled.rows, doubled.bound)


def expect_batch_after(last: int | None, offsets: Sequence[str | None]) -> ExpectedPosition:
    """What the first new batch is held to, where it comes after batch `last` and begins at `offsets`."""
    return ExpectedPosition(batch=None if last is None else last + 1, offsets=tuple(offsets))


def expect_first_batch(facts: Facts) -> ExpectedPosition:
    """What the first batch of all is held to: each source from its beginning."""
    return ExpectedPosition(batch=0, offsets=tuple(None for _ in facts.sources or facts.checkpoint.sources))


def expect_rows(
    scope: str,
    key: Sequence[str],
    *,
    again: bool = False,
    open_batch: int | None = None,
    inferred: Sequence[str] = (),
) -> ExpectedRows:
    """Which rows have to be there once, with the keys alone that say something: a plan is sealed with them."""
    rows = ExpectedRows(scope=scope, key=tuple(key))
    if again:
        rows = codec.change(rows, again=True)
    if open_batch is not None:
        rows = codec.change(rows, open=open_batch)
    return codec.change(rows, inferred=tuple(inferred)) if inferred else rows


def criteria(
    facts: Facts,
    *,
    begins: ExpectedPosition,
    files: tuple[str, int],
    before: int | None,
    rows: ExpectedRows,
    repeats: Repeats,
    new_rows: int | None,
    code: CodeFacts | None = None,
) -> tuple[Criterion, ...]:
    """What every recovery is measured by, with the words of `WORDS`; without what no one could measure at this sink.

    `begins`: where the first batch does. `files`: scope (`verification.evidence`) and number of the files that stand in
    batches. `before`: rows of the table. `rows`: which rows have to be there once. `repeats`: rows that the plan
    accepts beyond the first of their key. `new_rows`: by how much the table grows; None where that is not forecast.
    `code`: that runs; None: the new code.
    """
    (scope, number), key = files, rows.key or ()
    others = tuple(sorted({place for flow in facts.beside for place in flow.places}))
    if whole_rows(code or facts.new_code):
        rows = codec.change(rows, whole_rows=True)
    expected: dict[str, ExpectedValue] = {
        "FIRST_BATCH_AT_POSITION": begins,
        "EACH_FILE_ONCE": ExpectedFiles(scope=scope, files=number),
        **({} if scope == "new" else {"ROWS_OF_BEFORE_UNTOUCHED": ExpectedRowsBefore(rows=before)}),
        "TABLE_GREW_BY_NEW_BATCHES": ExpectedGrowth(before=before),
        "EVERY_ROW_ONCE": rows,
        **({"NO_KEY_TWICE": ExpectedKeys(key=key, accepted=repeats.accepted)} if key else {}),
        **({} if new_rows is None else {"COUNTS_EQUAL_FORECAST": ExpectedCounts(new_rows=new_rows)}),
        "NOTHING_ELSE_CHANGED": ExpectedOthers(ran=others) if facts.beside else ExpectedOthers(),
        "FURTHER_UPDATE_ADDS_NOTHING": ExpectedNothing(),
    }
    without = not_measured(facts.sink)
    words = WORDS if is_table(facts) else {**WORDS, **SINK_WORDS}
    words = {**words, **BESIDE_WORDS} if facts.beside else words
    words = {**words, **PLAIN_WORDS} if facts.is_plain else words
    words = words if repeats.none else {**words, "NO_KEY_TWICE": REPEATED_WORDS[repeats.bound]}
    return tuple(
        Criterion(code=code, says=words[code], expected=value)
        for code, value in expected.items()
        if code not in without
    )


def rerun(facts: Facts) -> PlannedStep:
    """The update that goes on with the flow: of its table alone, or of the pipeline, for no selection names a sink."""
    if not facts.sink.declared:
        alone = f"Update {facts.dataset} and nothing else."
        return PlannedStep(
            kind=StepKind.RERUN,
            says=f"Start the stream, which writes {facts.dataset}." if facts.is_plain else alone,
            args=UpdateArgs(refresh=(facts.dataset,)),
        )
    return PlannedStep(
        kind=StepKind.RERUN,
        says=f"{'Start the stream' if facts.is_plain else 'Update the pipeline'}, which sends to {facts.dataset}.",
        args=UpdateArgs(refresh=()),
    )


def rerun_anew(facts: Facts) -> PlannedStep:
    """The update that reads everything again."""
    if not facts.sink.declared:
        verb = "Empty" if is_table(facts) else "Reset"
        says = f"{verb} {facts.dataset} and read everything again (full_refresh_selection)."
        args = UpdateArgs(full_refresh=(facts.dataset,))
        return PlannedStep(kind=StepKind.RERUN, says=says, args=args)
    says = f"Give {facts.flow} an empty checkpoint and read everything again (reset_checkpoint_selection)."
    args = UpdateArgs(refresh=(), reset=(facts.flow,))
    return PlannedStep(kind=StepKind.RERUN, says=says, args=args)


def rerun_from_nothing(facts: Facts) -> PlannedStep:
    """The update that gives the flow an empty checkpoint and keeps what its table has."""
    if facts.sink.declared:
        return rerun_anew(facts)
    says = f"Give {facts.flow} an empty checkpoint, keep {facts.dataset}, and read everything again "
    args = UpdateArgs(refresh=(facts.dataset,), reset=(facts.flow,))
    return PlannedStep(kind=StepKind.RERUN, says=f"{says}(reset_checkpoint_selection).", args=args)


BESIDE_WORDS = {
    "NOTHING_ELSE_CHANGED": "No other checkpoint or table that was watched changed, but for flows that the updates run "
    "too: what these wrote is not known."
}
PLAIN_WORDS = {"FURTHER_UPDATE_ADDS_NOTHING": "A further run of the stream adds nothing."}
SINK_WORDS = {"EVERY_ROW_ONCE": "The new batches sent every expected row exactly once."}
_ANY_REPEATS: Final = "New rows that repeat a key of the table are counted; this plan accepts any number."
REPEATED_WORDS: Final[Mapping[Bound, str]] = {
    Bound.EXACT: "Exactly as many new rows repeat a key of the table as this plan accepts.",
    Bound.AT_MOST: "No more new rows repeat a key of the table than this plan accepts.",
    Bound.AT_LEAST: _ANY_REPEATS,
    Bound.ESTIMATE: _ANY_REPEATS,
    Bound.UNKNOWN: _ANY_REPEATS,
}
"""`NO_KEY_TWICE` of a plan that accepts repeats, as `verification.whole` holds to them."""
WORDS = {
    "FIRST_BATCH_AT_POSITION": "The first new batch began at the planned position.",
    "EACH_FILE_ONCE": "Every input that Spark reads is in exactly one committed batch.",
    "ROWS_OF_BEFORE_UNTOUCHED": "The earlier rows are untouched.",
    "TABLE_GREW_BY_NEW_BATCHES": "The table grew by exactly the rows that the new batches wrote.",
    "EVERY_ROW_ONCE": "The new batches wrote every expected row exactly once.",
    "NO_KEY_TWICE": "No key of a new row is in the table twice.",
    "COUNTS_EQUAL_FORECAST": "The counts equal the forecast.",
    "NOTHING_ELSE_CHANGED": "None of the other checkpoints and tables that were watched changed.",
    "FURTHER_UPDATE_ADDS_NOTHING": "A further update adds nothing.",
}
