"""The outcomes that a run on Spark recorded, and the page that shows them.

    python -m tests.damages.record > docs/damage-table.md

The file beside this one is written by the tests of damages in tests/integration when RECORD_DAMAGES is set, and with
it the places below tests/fixtures/damages on which the damages were made; any other run of them compares what Spark
does then with what was recorded.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.damages import frozen, recipes
from tests.damages.bases import Base, Place, make
from tests.damages.cases import EVERY
from tests.damages.judge import Judged

FILE = Path(__file__).with_name("outcomes.json")
HEAD = """# What a damaged checkpoint leads to: predicted, and seen on Spark

Each row is one damage, made on a checkpoint that Spark 4.2 wrote. `inspect` predicted from the files alone what
the next run with the same code comes to; then Spark ran, and the rows in the sink were counted one by one. Where
nothing is damaged, nothing may block. `test_damages_on_spark.py` and `test_more_damages_on_spark.py` in
`tests/integration` record the outcomes and the checkpoints; `tests/unit/damages` damages those same checkpoints and
compares its predictions with the record at every run of the tests; this page is made from the record by
`.venv/bin/python -m tests.damages.record`.

**{count} damages and good checkpoints, {agree} predictions right.** By outcome: {outcomes}.

- **fails**: the query ends with an error; in brackets its condition, or its first words where it has none.
- **loses rows**, **doubles rows**: the run ends well, and rows are missing or there too often.
- **unreadable table**: the run ends well, and the table can no longer be read.
- **goes on**: the run ends well, and the sink has exactly the right rows.

Of several findings the worst outcome is predicted, in this order: {order}.
Spark fails before it writes; a table that cannot be read shows no rows; rows that are gone weigh more than rows
that can be told apart.

The run after the damage reads the waiting files one by one, as the runs before did; where batch numbers are used
again, it reads them all at once, as equal batches would hide the loss. State files and the table's files were
read as with `--deep` where the damage lies inside of them, input files looked for as with `--inputs`.

`foreachBatch` keeps the rows of every call, or one answer for each batch id. Progress is tracked asynchronously with
Spark's check of the sink lifted: it refuses `foreachBatch` and file tables, whose rows can be counted here. Of several
queries (renamed flows, shared tables and checkpoints) what their definitions say is part of the prediction. A batch
that Spark put in by itself has a header that was edited: Spark 4.2's tool fails on offsets in the format that tells it.
"""
COLUMNS = "| damage | checkpoint | files touched | findings | predicted | Spark's outcome | agree |"
SEEN = """
## Findings and the rows that show them

Every finding of docs/findings.md occurs in a row above, or it is said here why it cannot.

| finding | rows |
|---|---|
"""
# Why no row shows them.
UNSEEN = {
    "STATE_BLOCK_DAMAGED": "shows when a key of that block is asked for; `test_state_on_spark.py` damages each kind",
    "STATE_FILTER_DAMAGED": "changes nothing that a run shows; `test_state_on_spark.py` damages each kind",
    "SINK_SWALLOWED": "shows in what was written, not in the next run; `test_inspect_damages.py` judges such ones",
    "SINK_HAS_ROWS_OF_BEFORE": "shows in what was written; `tests/unit/sinks/test_delta.py` judges such ones",
    "SINK_FORGOT_BATCH": "needs a Delta table that forgets; `tests/unit/sinks/test_delta.py` judges such ones",
    "SINK_FORGOT": "needs a Delta table that forgets; `tests/unit/sinks/test_delta.py` judges such ones",
    "SINK_WITHOUT_LOG": "needs files of foreachBatch; `tests/unit/checkpoints/test_tablekind.py` judges such ones",
    "SINK_NOT_COMPARED": "needs an Iceberg table; `tests/unit/checkpoints/test_tablekind.py` judges such ones",
    "JOIN_FORMAT_EARLY": "needs state of Spark 2; `tests/unit/checkpoints/test_spark_s_own.py` judges one of 2.4",
    "STATE_UNTOLD": "the code tells, and here it is known; `tests/unit/checkpoints/test_absent.py` judges without it",
    "STATE_UNTOLD_WATERMARK": "the same, of a query with a watermark",
    "STATE_AHEAD": "shows at the restart after the next one; `test_state_on_spark.py` runs both",
    "QUERY_ID_SHARED": "ends another query than the one that is restarted; `test_survey.py` judges such ones",
    "KAFKA_START_UNREADABLE": "needs a Kafka broker, which this test does not start; known from Spark's code",
    "STATE_UNREAD": "a limit of this reader: no state file is read, so nothing is predicted",
    "TOO_LARGE": "a limit of this reader, met before anything is judged: nothing is predicted",
    "TOO_MANY_FILES": "a limit of this reader, met before everything is judged: nothing is predicted",
}
APART = """
## What cannot be predicted

| damage | checkpoint | files touched | Spark's outcome | why it is not seen |
|---|---|---|---|---|
"""


def load() -> dict[str, dict[str, Any]]:
    """The recorded rows by damage."""
    rows: list[dict[str, Any]] = json.loads(FILE.read_text())
    return {row["damage"]: row for row in rows}


RECORDING = bool(os.environ.get("RECORD_DAMAGES"))


class Recorded:
    """What was recorded before; when RECORD_DAMAGES is set, what is seen now."""

    def __init__(self) -> None:
        self.known = load()
        self.seen: list[Judged] = []

    def check(self, seen: Judged) -> None:
        """Compare with the record, or keep for it. The digest is of the very bytes of the place that was recorded."""
        if RECORDING:
            self.seen.append(seen)
        else:
            assert {**seen.as_dict(), "digest": ""} == {**self.known[seen.damage], "digest": ""}


def recorder() -> Iterator[Recorded]:
    """For one file of tests; when recording, its rows take the place of the old ones at the end."""
    recorded = Recorded()
    yield recorded
    if RECORDING:
        names = [case.name for case in EVERY]
        rows = {**recorded.known, **{seen.damage: seen.as_dict() for seen in recorded.seen}}
        FILE.write_text(json.dumps([rows[name] for name in names if name in rows], indent=1) + "\n")


@dataclass
class MadeBases:
    """Bases as this session's Spark makes them now, each once; those of others as they were recorded.

    When recording, what is made is kept, so that the recorded outcomes are those of the recorded bytes.
    """

    spark: Any
    root: Path
    own: Mapping[str, Base]
    made: dict[str, frozen.Entries] = field(default_factory=dict)

    def __call__(self, name: str) -> frozen.Entries:
        if name not in self.own:
            return frozen.load(name)
        if name not in self.made:
            place = Place(self.root / f"good-{len(self.made)}")
            make(self.spark, self.own[name], place)
            self.made[name] = frozen.take(place.root)
            if RECORDING:
                frozen.keep(name, self.made[name], recipes.of_base(self.own[name]))
        return self.made[name]


def page() -> str:
    """docs/damage-table.md."""
    from recovery.checkpoints.report import Outcome

    recorded = load()
    told = [recorded[c.name] for c in EVERY if not c.untold]
    right = sum(row["predicted"] == row["outcome"] for row in told)
    count = Counter(row["outcome"] for row in told)
    head = HEAD.format(
        count=len(told),
        agree=right,
        outcomes=", ".join(f"{count[o.value]} {o.value}" for o in Outcome if count[o.value]),
        order=", ".join(o.value for o in Outcome if o not in (Outcome.UNKNOWN, Outcome.OPEN)),
    )
    lines = [head, COLUMNS, "|---|---|---|---|---|---|---|", *(_row(row) for row in told)]
    apart = [_untold(recorded[c.name], c.untold) for c in EVERY if c.untold]
    return "\n".join(lines) + "\n" + APART + "\n".join(apart) + "\n" + SEEN + "\n".join(_seen()) + "\n"


def occurrences() -> dict[str, int]:
    """Code of each finding -> the rows in which it occurs."""
    from recovery.checkpoints.findings import BY_CODE

    found = Counter(code for row in load().values() for code in row["codes"])
    return {code: found[code] for code in BY_CODE}


def _seen() -> list[str]:
    return [f"| `{code}` | {count or 'none: ' + UNSEEN[code]} |" for code, count in occurrences().items()]


def _row(row: dict[str, Any]) -> str:
    agree = "yes" if row["predicted"] == row["outcome"] else "**no**"
    codes = ", ".join(f"`{c}`" for c in row["codes"]) or "none"
    return (
        f"| {_plain(row['damage'])} | {row['base']} | {_files(row)} | {codes} | {row['predicted']} "
        f"| {_outcome(row)} | {agree} |"
    )


def _untold(row: dict[str, Any], why: str) -> str:
    return f"| {_plain(row['damage'])} | {row['base']} | {_files(row)} | {_outcome(row)} | {why} |"


def _files(row: dict[str, Any]) -> str:
    return ", ".join(f if f.startswith("and ") else f"`{f}`" for f in row["files"]) or "none"


def _outcome(row: dict[str, Any]) -> str:
    return f"{row['outcome']} ({_plain(row['detail'])})" if row["detail"] else str(row["outcome"])


def _plain(text: str) -> str:
    """Text of a failure inside a table: nothing in it is markup."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    sys.stdout.write(page())
