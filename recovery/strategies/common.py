"""What several strategies say in the same way: positions, amounts, the criteria every recovery ends with."""

from collections.abc import Mapping, Sequence
from typing import Any

from recovery.checkpoints.report import CheckpointReport, Severity
from recovery.sources.base import InputFile, SourceFacts
from recovery.strategies.base import Amount, Criterion, Facts, StepSpec

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


def word(operator: str) -> str:
    """The name people know a stateful operator by."""
    return OPERATOR_WORDS.get(operator, operator)


def plural(count: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def files_of(facts: Facts, which: str) -> tuple[InputFile, ...]:
    """The `processed` or `waiting` files of all sources together."""
    return tuple(f for s in facts.sources for f in getattr(s, which))


def name_of(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def amount(rows: int | None, files: Sequence[InputFile], why: str, *, exact: bool = True) -> Amount:
    """An amount over these files; not exact when the rows are not known."""
    return Amount(
        rows=rows,
        files=len(files),
        start=name_of(files[0].path) if files else None,
        end=name_of(files[-1].path) if files else None,
        exact=exact and rows is not None,
        why=why,
    )


def nothing(why: str) -> Amount:
    return Amount(rows=0, files=0, start=None, end=None, exact=True, why=why)


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


def shared_block(facts: Facts) -> str | None:
    """Why no strategy that keeps the position can run on this flow; None when they can."""
    if reason := any_block(facts):
        return reason
    if facts.sink.kind != "files":
        return (
            f"Table {facts.dataset} is not a file table with a _spark_metadata log, so nobody can tell here "
            "what it remembers."
        )
    unknown = [s for s in facts.sources if s.position.kind != "files"]
    if unknown:
        return (
            f"Source {unknown[0].position.source} is not a file source; this version can position file "
            "sources only."
        )
    return None


CARRIED_OVER = (
    "their positions cannot be carried over one to one. Put the sources back, or take full-refresh."
)


def source_mismatch(
    facts: Facts, checkpoint: CheckpointReport | None = None, so: str = CARRIED_OVER
) -> str | None:
    """Why the code's sources do not fit a checkpoint (the flow's own when None); `so` ends the sentence."""
    if facts.new_code.operators is None and facts.new_code.problem:
        return f"The code could not be analysed: {facts.new_code.problem}"
    in_code, in_checkpoint = len(facts.new_code.sources), len((checkpoint or facts.checkpoint).sources)
    if in_code != in_checkpoint:
        return f"The checkpoint has {plural(in_checkpoint, 'source')}, the code has {in_code}: {so}"
    return None


def positions(facts: Facts, *, after: str) -> tuple[Mapping[str, Any], ...]:
    """Before -> after per source. `after`: "same" keeps every position, "start" begins anew."""
    return tuple(_position(facts, source, after) for source in facts.sources)


def _position(facts: Facts, source: SourceFacts, after: str) -> Mapping[str, Any]:
    last = source.processed[-1].path if source.processed else None
    before = {
        "label": source.position.label,
        "offset_json": source.position.offset_json,
        "name": name_of(last) if last else None,
    }
    start = {"label": "the beginning", "offset_json": None, "name": None}
    ahead = source.waiting if after == "same" else (*source.processed, *source.waiting)
    rows = [facts.counts.by_file.get(f.path) for f in ahead]
    total = len(source.processed) + len(source.gone) + len(source.waiting)
    return {
        "source": source.position.source,
        "location": source.location,
        "kind": source.position.kind,
        "before": before,
        "after": before if after == "same" else start,
        "next": {
            "name": name_of(ahead[0].path) if ahead else None,
            "mtime_ms": ahead[0].mtime_ms if ahead else None,
            "files": len(ahead),
            "rows": None if None in rows else sum(r for r in rows if r is not None),
            "exact": None not in rows,
        },
        "readable": {
            "ok": not source.gone,
            "says": f"{total - len(source.gone)} of {total} files" if total else "no file has arrived yet",
        },
    }


def state_keys(facts: Facts) -> str:
    """`12 keys`, where a deduplicating table tells the number; else the operators."""
    names = [word(o.name) for o in facts.checkpoint.state_operators]
    if not names:
        return "none"
    if all(o.name == "dedupe" for o in facts.checkpoint.state_operators) and facts.counts.table is not None:
        return plural(facts.counts.table, "key")
    return ", ".join(names)


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


def counted(new_rows: int | None) -> dict[str, Any]:
    """The criterion that holds the recovery to its forecast; none where rows could not be forecast."""
    return {} if new_rows is None else {"COUNTS_EQUAL_FORECAST": {"new_rows": new_rows}}


def criteria(facts: Facts, codes: Mapping[str, Any]) -> tuple[Criterion, ...]:
    """Criteria with the words of `WORDS`, in its order; `codes` maps code -> expected value."""
    return tuple(Criterion(code, says, codes[code]) for code, says in WORDS.items() if code in codes)


WORDS = {
    "FIRST_BATCH_AT_POSITION": "The first new batch began at the planned position.",
    "EACH_FILE_ONCE": "Every input stands in exactly one committed batch.",
    "TABLE_GREW_BY_NEW_BATCHES": "The table grew by exactly the rows that the new batches wrote.",
    "EVERY_ROW_ONCE": "Every expected row is in the table exactly once.",
    "COUNTS_EQUAL_FORECAST": "The counts equal the forecast.",
    "NOTHING_ELSE_CHANGED": "No other flow's checkpoint and no other table changed.",
    "FURTHER_UPDATE_ADDS_NOTHING": "A further update adds nothing.",
}
