"""docs/matrix.md from what came of a run: no dates, no places of a machine, so that two runs give the same page."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.matrix.cells import COLUMNS, Cell, Result, all_cells

TARGET = Path(__file__).resolve().parents[2] / "docs" / "matrix.md"
HEAD = """# Forecast and outcome

Each strategy forecasts, before it runs, the rows that it loses, doubles and reads again, the new rows, and the rows of
the table afterwards. This page compares each forecast with what Spark did: a real stream was brought into the incident,
the product's own code made and ran the plan, and Spark counted the rows.
`forecast/outcome`; `≤` is a forecast that says "at most"; `?` one that is not known. A blocked strategy shows
why. `empty` is blocked everywhere; it is run here all the same, to check the reason.

The outcome is measured against the rows that the table held, those that only the state held, and what the code that
ran should yield of the waiting rows. *Lost* are rows of these that the table lacks, *doubled* rows that it has beyond
them. For *continue* and *full-refresh* without the old code's `dropDuplicates`, *doubled* are new rows beyond the first
of their key. Rows lost before the incident are not counted here.

`python -m tests.matrix --keep FILE` runs all cells, `--write FILE` makes this page. `tests/integration/test_matrix.py`
runs a choice of them at every `bin/test`.

Everything here was run; the end of the page lists what could not be, and why. Questions about sources that were added,
removed or replaced are answered with yes. A topic that was deleted and recreated under its name (sources.md) has tests
of its own and is not among these incidents.
"""
WORDS = {
    "equal": "equal",
    "bounded": "within its bound",
    "untold": "not known, and marked so",
    "differs": "**different**",
    "failed": "**failed**",
    "blocked": "blocked",
}


def keep(file: Path, cell: Cell) -> None:
    """Add a cell to a file of JSON lines."""
    line = {
        "cell": [cell.source, cell.sink, cell.incident.name],
        "fails": cell.fails,
        "results": {c: asdict(r) for c, r in cell.results.items()},
    }
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def read(file: Path) -> list[Cell]:
    """The newest of each cell, in the order of the matrix; a cell that was not run has no results."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    held = {tuple(line["cell"]): line for line in lines}
    cells = all_cells()
    for cell in cells:
        line = held.get((cell.source, cell.sink, cell.incident.name))
        if line:
            cell.fails = line["fails"]
            cell.results = {
                c: Result(**{**r, "differences": tuple(r["differences"])}) for c, r in line["results"].items()
            }
    return cells


def text(cells: Sequence[Cell]) -> str:
    """The page."""
    ran = [c for c in cells if c.results]
    parts = [HEAD, "## In numbers\n", *_numbers(ran)]
    for source, sink in dict.fromkeys((c.source, c.sink) for c in cells):
        mine = [c for c in cells if (c.source, c.sink) == (source, sink)]
        parts += [f"\n## {_headed(source)} into {SINK_WORDS[sink]}\n", *_section(mine)]
    return "\n".join([*parts, *_not_run()]).rstrip() + "\n"


SINK_WORDS = {
    "parquet": "a file table",
    "delta": "a Delta table",
    "kafka": "Kafka",
    "foreachBatch": "foreachBatch",
    "foreachBatch with txnAppId": "foreachBatch with txnAppId",
}
NOT_RUN = {
    "Iceberg, source and sink": "Its runtime for Spark 4.2 is not published. Offsets are parsed and explained, what a "
    "sink remembers is judged from its documented shape (sources.md, sinks.md).",
    "AUTO CDC": "Spark 4.2 wants a target whose connector supports MERGE through Spark's own row-level operations. "
    "That of Delta 4.4 does not: the update ends with `AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE`. Iceberg's would.",
    "Auto Loader, Kinesis, Pub/Sub": "They run on Databricks alone. Their positions are read and shown; a seed of them "
    "is refused.",
    "rate, rate-micro-batch, Python data source": "What they yield is made when it is asked for: there is nothing to "
    "count it by, and forecasts say so. Seeds of them are run by `tests/integration/test_seeds_on_spark.py`.",
    "foreachBatch in a pipeline": "Open-source pipelines of Spark 4.2 have no such sink; here a plain stream writes.",
    "Materialized views": "They have no checkpoint: every update recomputes them.",
    "Several flows into one table": "Each has a checkpoint of its own. What they share is judged (sinks.md).",
    "Other pairs of source and sink": "A source does not know what it is written to, nor a sink what is read: each is "
    "paired with one or two of the others.",
}


def _headed(source: str) -> str:
    name = source.replace("kafka", "Kafka").replace("delta", "Delta")
    return name[0].upper() + name[1:]


def _not_run() -> list[str]:
    return [
        "\n## Not run, and why\n",
        "| What | Why |",
        "|---|---|",
        *(f"| {w} | {y} |" for w, y in NOT_RUN.items()),
    ]


def _numbers(cells: Iterable[Cell]) -> list[str]:
    held = list(cells)
    verdicts = Counter(r.verdict for c in held for r in c.results.values())
    said = f"{len(held)} cells, {verdicts.total()} plans. No forecast was wrong."
    if wrong := verdicts["differs"] + verdicts["failed"]:
        said = f"{len(held)} cells, {verdicts.total()} plans, **{wrong} of them not as forecast**."
    rows = [f"| {WORDS[v]} | {verdicts[v]} |" for v in WORDS if verdicts[v]]
    return [f"{said}\n", "| Forecast | Plans |", "|---|---:|", *rows]


def _section(cells: Sequence[Cell]) -> list[str]:
    out: list[str] = []
    for cell in cells:
        out.append(f"\n### {cell.incident.name.capitalize()}\n")
        if not cell.results:
            out.append("Not run.")
            continue
        out.append(f"An update without any recovery: {_failure(cell.fails)}\n")
        out += ["| Strategy | Forecast and outcome | |", "|---|---|---|"]
        out += [_line(column, cell.results[column]) for column in COLUMNS if column in cell.results]
    return out


def _line(column: str, result: Result) -> str:
    if result.verdict == "blocked":
        return f"| {column} | {clean(result.says)} | blocked |"
    return f"| {column} | {clean(result.says)} | {WORDS[result.verdict]} |"


def _failure(text: str) -> str:
    return f"`{clean(text)}`" if text else "it succeeds"


def clean(text: str) -> str:
    """Without what differs from run to run: folders, ports, ids."""
    text = re.sub(r"(file:)?/+tmp/[^\s,;:)\"']+", "…", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "…", text)
    text = re.sub(r"\bt\d+\b", "orders", text)
    text = re.sub(r"\bin\d+x(\d+)\b", r"input\1", text)
    return text.replace("|", "\\|").replace("\n", " ")


def results(cells: Iterable[Cell]) -> Mapping[str, Any]:
    """Every plan of these cells by its name."""
    return {f"{c.name} / {column}": r for c in cells for column, r in c.results.items()}
