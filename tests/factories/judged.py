"""What was read and judged: diagnosis, checkpoint, strategies with their forecasts, facts."""

from typing import Any

from recovery.checkpoints.report import (
    CheckpointReport,
    Entries,
    Finding,
    Severity,
    SourceEntry,
    SourceProgress,
    StateOperator,
)
from recovery.contracts import codec
from recovery.contracts.diagnosis import Diagnosis
from recovery.contracts.forecast import Forecast
from recovery.contracts.option import Option
from tests.factories.flows import CONDITION, MESSAGE, ago

STORED_DIAGNOSIS: dict[str, Any] = {
    "condition": CONDITION,
    "family": "state-operator",
    "title": "The code no longer has the dropDuplicates step whose state is in the checkpoint.",
    "says": "Spark compares the stateful operators of the code with those of the checkpoint before it reads "
    "a row, and refuses to start when they differ.",
    "damaged": "nothing",
    "severity": 3,
    "do": [
        "If the step was taken out on purpose, continue after the last committed batch without its state.",
        "If it was taken out by mistake, put the old code back.",
    ],
    "advice": [
        {
            "says": "If the step was taken out on purpose, continue after the last committed batch without its state.",
            "strategy": "continue",
            "right_if": "yes",
            "undoable": True,
        },
        {
            "says": "If it was taken out by mistake, put the old code back.",
            "strategy": "revert",
            "right_if": "no",
            "undoable": True,
        },
    ],
    "storage": "reachable",
    "dont": ["Do not delete the checkpoint or start from an empty one: the table would silently miss rows."],
    "operators": {"checkpoint": ["dedupe"], "code": []},
    "causes": [
        {
            "class_name": "StreamingQueryException",
            "message": MESSAGE,
            "condition": CONDITION,
        }
    ],
    "attempts": 3,
}
DIAGNOSIS = codec.read(Diagnosis, STORED_DIAGNOSIS)

REPORT = CheckpointReport(
    location="file:/nowhere/storage/_checkpoints/spark_catalog/crm/customers_changes/customers_incremental_flow/0",
    format="structured-streaming",
    version=0,
    query_id="5b1e0c2a-77d4-4c0f-9a53-2f6d81a0b6c7",
    last_committed=2,
    last_planned=3,
    sources=(
        SourceProgress(
            0,
            "files",
            '{"logOffset":2}',
            2,
            Entries.from_entries(
                SourceEntry(f"file:/nowhere/in/changes-000{n}.json", 1, max(0, n - 2)) for n in range(1, 5)
            ),
            Entries.from_entries([SourceEntry("file:/nowhere/in/changes-0005.json", 1, 3)]),
        ),
    ),
    state_operators=(StateOperator(0, "dedupe", 2, key_columns=("customer_id", "sequence_num")),),
    findings=(
        Finding(
            "UNCOMMITTED_BATCH",
            Severity.INFO,
            "Batch 3 was planned by the failed start and not committed.",
            "Nothing to do. A recovery takes its position from batch 2.",
            "offsets/3",
        ),
    ),
    batches=tuple(
        {
            "batch": n,
            "planned": True,
            "committed": n < 3,
            "offsets": [f'{{"logOffset":{n}}}'],
            "timestamp_ms": 1795228200000 + n * 1800000,
        }
        for n in (3, 2, 1, 0)
    ),
    fingerprint="9" * 64,
    size_bytes=90112,
)

CHECKPOINT = REPORT.as_dict()


def amount(rows: int | None, files: int = 0, why: str = "", exact: bool = True) -> dict[str, Any]:
    return {"rows": rows, "files": files, "from": None, "to": None, "exact": exact, "why": why}


def forecast_of(**changes: Any) -> Forecast:
    """A forecast of no row, but for what is named: values, or as they are stored."""
    none = {"rows": 0, "bound": "exact"}
    fields = {
        "lost": none,
        "doubled": none,
        "reread": none,
        "new_rows": None,
        "table_after": None,
        "state": "",
    }
    return codec.read(Forecast, fields | changes)


def position(after: str = "same") -> dict[str, Any]:
    before = {"label": "file 4 of 7", "offset_json": '{"logOffset":2}', "name": "changes-0004.json"}
    start = {"label": "the beginning", "offset_json": None, "name": None}
    return {
        "source": 0,
        "location": "file:/nowhere/in/changes/*.json",
        "kind": "files",
        "before": before,
        "after": before if after == "same" else start,
        "next": {
            "name": "changes-0005.json",
            "mtime_ms": 1795231267000,
            "files": 3,
            "rows": 8,
            "exact": True,
        },
        "readable": {"ok": True, "says": "7 of 7 files"},
    }


CRITERIA = [
    {
        "code": "FIRST_BATCH_AT_POSITION",
        "says": "The first new batch began at the planned position.",
        "expected": {"batch": 3, "offsets": ['{"logOffset":2}']},
    },
    {
        "code": "EACH_FILE_ONCE",
        "says": "Every input is in exactly one committed batch.",
        "expected": {"scope": "both", "files": 7},
    },
    {
        "code": "ROWS_OF_BEFORE_UNTOUCHED",
        "says": "The earlier rows are untouched.",
        "expected": {"rows": 12},
    },
    {
        "code": "TABLE_GREW_BY_NEW_BATCHES",
        "says": "The table grew by exactly the rows that the new batches wrote.",
        "expected": {"before": 12},
    },
    {
        "code": "EVERY_ROW_ONCE",
        "says": "The new batches wrote every expected row exactly once.",
        "expected": {"scope": "new", "key": ["customer_id", "sequence_num"], "whole_rows": True},
    },
    {
        "code": "NO_KEY_TWICE",
        "says": "No key of a new row is in the table twice.",
        "expected": {
            "key": ["customer_id", "sequence_num"],
            "accepted": {"rows": 0, "bound": "exact"},
        },
    },
    {
        "code": "COUNTS_EQUAL_FORECAST",
        "says": "The counts equal the forecast.",
        "expected": {"new_rows": 8},
    },
    {
        "code": "FURTHER_UPDATE_ADDS_NOTHING",
        "says": "A further update adds nothing.",
        "expected": {},
    },
]

STATE_DROPPED = {
    "code": "STATE_DROPPED",
    "severity": "warning",
    "says": "If a record with one of the 12 keys known to the old dropDuplicates arrives again, it will be a second "
    "row in customers_changes.",
    "do": "That is what taking dropDuplicates out means. Keep it (revert) if repeats must not come in.",
    "file": None,
    "spark": "operator 0 dedupe",
}


def _steps(strategy: str) -> list[dict[str, Any]]:
    middle = {
        "continue": [
            (
                "seed",
                "Seed the next checkpoint version from batch 2: same positions, no state, new query id.",
            ),
            ("rerun", "Update spark_catalog.crm.customers_changes and nothing else."),
        ],
        "revert": [
            ("patch", "Write the changed source through the workspace API and read it back."),
            ("rerun", "Update spark_catalog.crm.customers_changes and nothing else."),
        ],
        "full-refresh": [("rerun", "Empty spark_catalog.crm.customers_changes and read everything again.")],
        "empty": [("rerun", "Start from an empty checkpoint.")],
    }["continue" if strategy in ("rewind", "rebuild") else strategy]
    backup = ("backup", "Keep the source as it is and what the checkpoint goes back to; read it back.")
    first = ("stop", "Prove that the pipeline is still stopped and nothing has moved since the plan.")
    kept = (backup,) if strategy in ("continue", "revert") else ()
    last = ("verify", "Measure the criteria of this plan on the data.")
    return [{"kind": kind, "says": says, "args": {}} for kind, says in (first, *kept, *middle, last)]


def counted(value: int, bound: str = "exact", why: str = "") -> dict[str, Any]:
    """An amount of anything, as it is stored."""
    return {"value": value, "exact": bound == "exact", "why": why, "bound": bound}


def effort(strategy: str, **changes: Any) -> dict[str, Any]:
    """What a strategy asks for, as it is stored."""
    anew, kept = strategy in ("full-refresh", "empty"), strategy == "revert"
    about = counted(12, "estimate", "One for each row of the table.")
    return {
        "people": counted(2),
        "steps": len(_steps(strategy)),
        "rows": counted(21 if anew else 8, "estimate", "Rows as the code writes them."),
        "bytes": counted(4914 if anew else 2106),
        "seconds": None if strategy == "empty" else 9.0,
        "timed_by": "unknown" if strategy == "empty" else "updates",
        "backup": {"needed": False, "bytes": None},
        "table": "emptied" if strategy == "full-refresh" else "no",
        "state": {"fate": "kept" if kept else "dropped", "keys": about},
        "undo": {"possible": strategy != "full-refresh", "until_batch": None if anew else 3},
        **changes,
    }


def option(strategy: str, **values: Any) -> dict[str, Any]:
    forecast = {
        "lost": amount(0, why="Every unread file is read."),
        "doubled": amount(0, why="No committed file is read again."),
        "reread": amount(0, why="It starts with file 5 of 7, changes-0005.json."),
        "new_rows": 8,
        "table_after": 20,
        "state": "Dropped: 12 keys",
        "seconds": 7.0,
        **values.pop("forecast", {}),
    }
    return {
        "strategy": strategy,
        "title": strategy,
        "summary": values.pop("summary", "Seeded reset: keep progress, drop state"),
        "blocked": None,
        "recommended": strategy == "continue",
        "forecast": forecast,
        "findings": [STATE_DROPPED],
        "steps": _steps(strategy),
        "criteria": CRITERIA,
        "rollback": "Until batch 3 is committed: the new version is renamed away and the old one is in use again.",
        "code_live": "Yes",
        "table_meanwhile": "Readable, 12 rows",
        "positions": [position()],
        "effort": effort(strategy),
        **values,
    }


def judged_option(strategy: str, **values: Any) -> Option:
    """The option as pages read it; `values` as they are stored."""
    return codec.read(Option, option(strategy, **values))


def judged_options() -> tuple[Option, ...]:
    """All of them as pages read them."""
    return tuple(codec.read(Option, one) for one in options())


def options() -> list[dict[str, Any]]:
    return [
        option("continue"),
        option(
            "revert",
            summary="Put the old code back, keep the checkpoint",
            forecast={"state": "Kept: 12 keys", "seconds": 6.0},
            code_live="No, undone",
            findings=[],
        ),
        option(
            "full-refresh",
            summary="Empty the table, read everything again",
            forecast={
                "doubled": amount(
                    1,
                    why="Rows that the old code had left out come back: repeats that dropDuplicates had removed.",
                ),
                "reread": amount(13, 4, "Every file that was committed and can still be read."),
                "new_rows": 21,
                "table_after": 21,
                "seconds": 9.0,
            },
            table_meanwhile="Empty until the update ends",
            rollback="None: the table is emptied first. What cannot be read again is gone.",
            positions=[position("start")],
            findings=[],
        ),
        option(
            "empty",
            summary="New empty checkpoint, keep the table",
            blocked="It would silently lose 8 rows: The table's log already has batches 0 to 2; it silently skips "
            "new batches of those numbers.",
            forecast={
                "lost": amount(
                    8,
                    3,
                    "The table's log already has batches 0 to 2; it silently skips new batches of those numbers.",
                ),
                "reread": amount(13, 4, "Every committed file is read again."),
                "new_rows": 0,
                "seconds": None,
            },
            positions=[position("start")],
            findings=[],
            criteria=[],
            rollback="Until batch 0 is committed.",
        ),
    ]


def facts(status: str = "ready", **values: Any) -> dict[str, Any]:
    if status != "ready":
        return {"status": status, "started_at": ago(seconds=6).isoformat(), **values}
    return {
        "status": "ready",
        "started_at": ago(minutes=3).isoformat(),
        "at": ago(minutes=3).isoformat(),
        "problem": None,
        "options": options(),
        "table_rows": 12,
        "waiting_rows": 8,
        "waiting_files": [
            {"path": f"file:/nowhere/in/changes-000{n}.json", "size": 702, "mtime_ms": 1795231267000}
            for n in (5, 6, 7)
        ],
        "processed_files": 4,
        "key": ["customer_id", "sequence_num"],
        "key_from": "the columns of dropDuplicates in the last good code",
        **values,
    }
