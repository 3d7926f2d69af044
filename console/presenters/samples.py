"""Made-up values for the component gallery only; no page of a flow or a recovery reads them."""

from typing import Any, Final

from console.presenters import checkpoint, dag, status
from console.presenters.running import RunStepRow
from console.presenters.stopping import StopLogLine
from console.presenters.wizard import AdviceRung, TroubleAnswer
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.positions import LabelledPosition, NextInput, PositionChange, ReadableInput

BEFORE: Final = 'rows = (\n    source\n    .dropDuplicates(["id"])\n)\n'
AFTER: Final = "# without the step\nrows = (\n    source\n)\n"

_FINDINGS: Final[list[dict[str, Any]]] = [
    {
        "code": "SAMPLE_BLOCKER",
        "severity": "blocker",
        "says": "It cannot go on like this.",
        "do": "Do this first.",
    },
    {
        "code": "SAMPLE_WARNING",
        "severity": "warning",
        "says": "A person should know this.",
        "do": "Look at that.",
    },
    {"code": "SAMPLE_NOTE", "severity": "info", "says": "A fact, for the record.", "do": "Nothing to do."},
]
FINDINGS: Final = checkpoint.finding_rows(_FINDINGS)

FORECAST: Final = Forecast(
    lost=RowAmount(
        rows=8,
        bound=Bound.EXACT,
        why="A loss is red and names the reason.",
        files=3,
        start="c.json",
        end="e.json",
    ),
    doubled=RowAmount(rows=0, bound=Bound.EXACT, why="Nothing is doubled."),
    reread=RowAmount(rows=None, bound=Bound.UNKNOWN, why="What was not counted is unknown, never 0."),
    new_rows=8,
    table_after=20,
    state="Kept",
)

_PLACE: Final = LabelledPosition(label="file 4 of 7", offset_json='{"logOffset":2}', name="d.json")
POSITIONS: Final = [
    PositionChange(
        source=0,
        location="file:/data/in/*.json",
        before=_PLACE,
        after=_PLACE,
        next=NextInput(name="e.json", mtime_ms=1795231267000, files=3, rows=8, exact=True),
        readable=ReadableInput(ok=True, says="7 of 7 files"),
    )
]

LADDER: Final = [
    AdviceRung("The safest act", "Why it is the safest.", ("Recommended", "Can be undone"), first=True),
    AdviceRung("Another one", "When it is right.", ("Cannot be undone",)),
]
ASKS: Final = [
    TroubleAnswer("What happened", "One plain sentence", "And what it means."),
    TroubleAnswer("How bad", "Late, not lost", "What is damaged, what waits."),
    TroubleAnswer("Safe to wait?", "Yes", "For how long, and what gets worse."),
]
STEPS: Final = [
    RunStepRow("stop", "Stop", status.STEP["done"], "What was read back.", "", "0.3 s", 1, False),
    RunStepRow(
        "seed", "Reset flow", status.STEP["running"], "What it does now.", "", "since 03:24:02", 1, True
    ),
    RunStepRow(
        "rerun",
        "Rerun",
        status.STEP["unknown"],
        "What it is to do.",
        "Its end was not seen.",
        "4.0 s",
        2,
        False,
    ),
    RunStepRow("verify", "Verify", status.STEP["pending"], "What it is to do.", "", "–", 0, False),
]
LOG: Final = [
    StopLogLine("2026-11-21T03:24:02.182Z", "rerun", "A line, as the step wrote it."),
    StopLogLine("2026-11-21T03:24:32.190Z", "rerun", "A line that a person should see.", warn=True),
]
ITEMS: Final = [
    dag.Item("s", "in/*.json", "source"),
    dag.Item("f", "orders_flow", "failed, batch 3", "bad"),
    dag.Item("t", "orders", "out of date", "stale"),
    dag.Item("v", "orders_by_day (view)", "out of date", "stale"),
]
EDGES: Final = [("s", "f"), ("f", "t"), ("t", "v")]
BATCHES: Final[list[tuple[str, float | None]]] = [("0", 5), ("1", 0), ("2", None)]
