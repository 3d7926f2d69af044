"""What several strategies say in the same way: amounts, steps, the criteria every recovery ends with."""

from collections.abc import Mapping, Sequence
from typing import Any

from recovery.checkpoints.report import Severity
from recovery.sources import files
from recovery.sources.base import AT_MOST, InputFile
from recovery.strategies.base import Amount, Criterion, Facts, StepSpec
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
}


STATE_ANEW = "go back and build its state anew (rewind)"


def word(operator: str) -> str:
    """The name people know a stateful operator by."""
    return OPERATOR_WORDS.get(operator, operator)


def names(operators: Sequence[str]) -> str:
    """Stateful operators in people's words, or that there is none."""
    return ", ".join(word(o) for o in operators) or "no stateful step"


def plural(count: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def precision(amount: Mapping[str, Any]) -> str:
    """`exact`, `at most`, `estimate`, or `unknown`: what a number of a forecast is (`Amount.as_dict`)."""
    if amount.get("rows") is None:
        return "unknown"
    if amount.get("exact"):
        return "exact"
    return "at most" if str(amount.get("why")).startswith(AT_MOST) else "estimate"


def reason(amount: Mapping[str, Any]) -> str:
    """Why the number is what it is, without the words that `precision` has said."""
    return str(amount.get("why") or "").removeprefix(AT_MOST)


def files_of(facts: Facts, which: str) -> tuple[InputFile, ...]:
    """The `processed` or `waiting` files of all sources together."""
    return tuple(f for s in facts.sources for f in getattr(s, which))


def only_files(facts: Facts) -> bool:
    """Whether every source is a list of files."""
    return all(s.position.kind == files.KIND for s in facts.sources)


def name_of(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def amount(rows: int | None, of: Sequence[InputFile], why: str, *, exact: bool = True) -> Amount:
    """An amount over these files; not exact when the rows are not known."""
    return Amount(
        rows=rows,
        files=len(of),
        start=name_of(of[0].path) if of else None,
        end=name_of(of[-1].path) if of else None,
        exact=exact and rows is not None,
        why=why,
    )


def all_files(facts: Facts) -> int:
    """How many files stand in batches, or will, where reading goes on as it stood."""
    return sum(number_of(s) for s in facts.sources)


def all_there(facts: Facts) -> int:
    """How many files an empty checkpoint reads: those too that Spark passes over now."""
    return all_files(facts) + len(files_of(facts, "ignored"))


def table_after(facts: Facts, new_rows: int | None) -> int | None:
    """Rows of the table once `new_rows` came to it; None where one of both is not known."""
    table = facts.counts.table
    return None if new_rows is None or table is None else table + new_rows


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


SEEDED_BACK = "the new version is renamed away and the old one is in use again."


def any_block(facts: Facts) -> str | None:
    """Why nothing at all can be done to this flow, a full refresh neither; None when it can."""
    if facts.active_update:
        return f"Update {facts.active_update} is running: stop the pipeline first."
    if facts.between:
        return f"{facts.between[0].says} {facts.between[0].do}"
    twin = next((s for s in facts.checkpoint.sources if s.twin_of is not None), None)
    if twin is not None:
        return (
            f"The code reads source {twin.twin_of} twice (its second line is {twin.index}); this version counts a "
            "source's files for one place in the code only."
        )
    return None


def unread_code(facts: Facts) -> str | None:
    """Why nothing can be said of the code that shall run; None when it was analysed."""
    if facts.new_code.operators is None and facts.new_code.problem:
        return f"The code could not be analysed: {facts.new_code.problem}"
    return None


def other_code(facts: Facts) -> bool:
    """Whether the code is known not to be the one whose state it is: steps of the same names may store other columns.

    Spark compares keys and values of a store only when a batch runs (StateSchemaCompatibilityChecker).
    """
    return facts.old_code is not None and dict(facts.old_code.files) != dict(facts.new_code.files)


def known_keys(facts: Facts) -> str:
    """`12 keys`, where a deduplicating table tells the number; else `keys`."""
    alone = all(o.name == "dedupe" for o in facts.checkpoint.state_operators)
    return plural(facts.counts.table, "key") if alone and facts.counts.table is not None else "keys"


def state_keys(facts: Facts) -> str:
    """`12 keys`, where a deduplicating table tells the number; else the operators."""
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


def steps(patch: bool, *middle: StepSpec) -> tuple[StepSpec, ...]:
    """Stop and verify around what a strategy does; the patch step only where code changes, and a backup before what
    is changed by us, code or checkpoint: an update that empties a table leaves nothing to go back to."""
    first = [
        StepSpec("stop", "Prove that the pipeline is still stopped and nothing has moved since the plan.")
    ]
    if patch or any(s.kind == "seed" for s in middle):
        first.append(
            StepSpec(
                "backup", "Keep the source as it stands and what the checkpoint goes back to; read it back."
            )
        )
    if patch:
        first.append(
            StepSpec("patch", "Write the changed source through the workspace API and read it back.")
        )
    return (*first, *middle, StepSpec("verify", "Measure the criteria of this plan on the data."))


def goes_on(last: int | None, offsets: Sequence[str | None]) -> dict[str, Any]:
    """What the first new batch is to be held to, where it comes after batch `last` and begins at `offsets`."""
    return {"batch": None if last is None else last + 1, "offsets": list(offsets)}


def criteria(
    facts: Facts,
    *,
    begins: Mapping[str, Any],
    files: tuple[str, int],
    before: int | None,
    rows: Mapping[str, Any],
    new_rows: int | None,
) -> tuple[Criterion, ...]:
    """What every recovery is measured by, with the words of `WORDS`; without what nobody could measure at this sink.

    `begins`: as `goes_on`. `files`: scope and number of the files that stand in batches. `before`: rows of the table.
    `rows`: which rows have to be there once. `new_rows`: by how much the table grows; None where that is not forecast.
    """
    expected: dict[str, Any] = {
        "FIRST_BATCH_AT_POSITION": dict(begins),
        "EACH_FILE_ONCE": {"scope": files[0], "files": files[1]},
        "TABLE_GREW_BY_NEW_BATCHES": {"before": before},
        "EVERY_ROW_ONCE": dict(rows),
        **({} if new_rows is None else {"COUNTS_EQUAL_FORECAST": {"new_rows": new_rows}}),
        "NOTHING_ELSE_CHANGED": {},
        "FURTHER_UPDATE_ADDS_NOTHING": {},
    }
    without = not_measured(facts.sink)
    if facts.beside:  # the update runs them too
        without |= {"NOTHING_ELSE_CHANGED"}
    words = WORDS if is_table(facts) else {**WORDS, **SINK_WORDS}
    return tuple(
        Criterion(code, words[code], value) for code, value in expected.items() if code not in without
    )


def rerun(facts: Facts) -> StepSpec:
    """The update that goes on with the flow: of its table alone, or of the pipeline, for no selection names a sink."""
    if not facts.sink.declared:
        return StepSpec("rerun", f"Update {facts.dataset} and nothing else.", {"refresh": [facts.dataset]})
    return StepSpec("rerun", f"Update the pipeline, which sends to {facts.dataset}.", {"refresh": []})


def rerun_anew(facts: Facts) -> StepSpec:
    """The update that reads everything again."""
    if not facts.sink.declared:
        verb = "Empty" if is_table(facts) else "Reset"
        says = f"{verb} {facts.dataset} and read everything again (full_refresh_selection)."
        return StepSpec("rerun", says, {"full_refresh": [facts.dataset]})
    says = f"Give {facts.flow} an empty checkpoint and read everything again (reset_checkpoint_selection)."
    return StepSpec("rerun", says, {"refresh": [], "reset": [facts.flow]})


SINK_WORDS = {"EVERY_ROW_ONCE": "The new batches sent every expected row exactly once."}
WORDS = {
    "FIRST_BATCH_AT_POSITION": "The first new batch began at the planned position.",
    "EACH_FILE_ONCE": "Every input stands in exactly one committed batch.",
    "TABLE_GREW_BY_NEW_BATCHES": "The table grew by exactly the rows that the new batches wrote.",
    "EVERY_ROW_ONCE": "Every expected row is in the table exactly once.",
    "COUNTS_EQUAL_FORECAST": "The counts equal the forecast.",
    "NOTHING_ELSE_CHANGED": "No other flow's checkpoint and no other table changed.",
    "FURTHER_UPDATE_ADDS_NOTHING": "A further update adds nothing.",
}
