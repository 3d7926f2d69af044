"""What chaos did and what it cost: one JSON object a run, and the page docs/chaos.md that adds runs up."""

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.chaos.person import COMES, Outcome
from tests.chaos.strikes import Strike

ADDED: Final = (
    "recoveries", "succeeded", "strikes", "kills", "lost", "doubled", "double_resets", "chain_breaks",
    "unknown_steps", "repeated_by_itself", "resumed_by_a_person", "seconds",
)  # fmt: skip
ZEROS: Final = {
    "lost": "rows lost",
    "doubled": "rows doubled",
    "double_resets": "double resets",
    "chain_breaks": "chain breaks",
}
BY_HAND: Final = 0.05
"""So many resumes by a person may come to one strike."""
ENOUGH: Final = 40
"""Fewer strikes say nothing of a share."""
ABOUT = """\
# Chaos

Recoveries by strategy *continue*, each of a pipeline that real Spark had failed, some at once, while parts of
the instance were killed (SIGKILL), frozen (SIGSTOP, then SIGCONT after at most 9 s), the broker flushed, and the
disk filled to its last byte (for up to 4 s). The strikes fell while the recoveries were planned and while their
steps ran; the table of strikes says what was done how often, and what is not in it was not done. Of the pools of
worker, web and database now all processes were killed at once, now a single one; the database is a PostgreSQL
server that keeps every commit and is started again after up to 6 s (SQLite has no process to kill).

A responder planned, ran and resumed through the command line only; nothing was mended by hand. Since steps begin
again by themselves, it resumes only a recovery that has waited for a minute; in the runs without a number there, at
once. Rows were
counted on the table without Spark, resets on the disk, the chain by `audit verify`, all of it after each round of
recoveries, when the strikes had ended. Meanwhile a page of the console was opened every second; after each
round `/readyz`, the command line and the Pipelines server had to answer again.

Made by `python -m tests.chaos --report docs/chaos.md`; the runs lie beside it in `chaos.jsonl`.
"""


@dataclass
class Run:
    """One run as far as it has come."""

    seed: int
    database: str
    began: str  # ISO time, UTC
    strikes: Sequence[Strike]
    outcomes: Sequence[Outcome]
    answers: Mapping[str, int]  # of the console's pages, by status
    seconds: float = 0.0
    chain_breaks: int = 0
    chain: str = ""
    problems: list[str] = field(default_factory=list)  # an instance that did not come back, and the like
    left_out: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return sum(1 for s in self.strikes if s.how == "kill")

    @property
    def by_hand(self) -> float:
        """Resumes by a person for each strike."""
        return sum(o.resumed for o in self.outcomes) / max(len(self.strikes), 1)

    @property
    def bad(self) -> bool:
        pressed = len(self.strikes) >= ENOUGH and self.by_hand > BY_HAND
        return bool(self.chain_breaks or self.problems or pressed) or any(o.bad for o in self.outcomes)

    def as_dict(self) -> dict[str, Any]:
        by = Counter((s.victim, s.how) for s in list(self.strikes))
        return {
            "seed": self.seed,
            "database": self.database,
            "began": self.began,
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "seconds": round(self.seconds),
            "recoveries": len(self.outcomes),
            "succeeded": sum(1 for o in self.outcomes if o.state == "succeeded"),
            "strikes": by.total(),
            "kills": self.kills,
            "by": {f"{how} {who}": n for (who, how), n in sorted(by.items())},
            "lost": sum(o.lost for o in self.outcomes),
            "doubled": sum(o.doubled for o in self.outcomes),
            "double_resets": sum(o.double_resets for o in self.outcomes),
            "chain_breaks": self.chain_breaks,
            "chain": self.chain,
            "unknown_steps": sum(o.unknown for o in self.outcomes),
            "repeated_by_itself": sum(o.repeated for o in self.outcomes),
            "resumed_by_a_person": sum(o.resumed for o in self.outcomes),
            "person_comes_after_seconds": COMES,
            "slowest_seconds": max((o.seconds for o in self.outcomes), default=0),
            "answers": dict(self.answers),
            "left_out": self.left_out,
            "problems": self.problems,
            "not_good": [asdict(o) for o in self.outcomes if o.bad],
        }


def keep(report: Path, run: dict[str, Any]) -> None:
    """Put a run among those beside the page, in the place of what it said of itself before; then write the page."""
    beside = report.with_suffix(".jsonl")
    lines = beside.read_text().splitlines() if beside.exists() else []
    runs = [r for r in map(json.loads, lines) if name(r) != name(run)] + [run]
    beside.write_text("".join(json.dumps(r) + "\n" for r in runs))
    report.write_text(page(runs))


def name(run: dict[str, Any]) -> tuple[str, str, int]:
    return run["began"], run["database"], run["seed"]


def page(runs: Sequence[dict[str, Any]]) -> str:
    """The Markdown page: a row for each run, and what they come to."""
    total = {what: sum(run.get(what, 0) for run in runs) for what in ADDED}
    strikes: Counter[str] = sum((Counter(run["by"]) for run in runs), Counter())
    lines = [
        ABOUT,
        "| run | recoveries | proven | strikes | of these kills | unknown steps | begun again by itself | resumed by a "
        "person | a share of strikes | slowest | took |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(row(f"{run['database']}, seed {run['seed']}, {run['python']}", run) for run in runs),
        row("**all**", total | {"slowest_seconds": max((run["slowest_seconds"] for run in runs), default=0)}),
        "",
        "| must be 0 | found |",
        "|---|---|",
        *(f"| {says} | {total[what]} |" for what, says in ZEROS.items()),
        f"| recoveries that were not proven | {total['recoveries'] - total['succeeded']} |",
        f"| instances that did not come back by themselves | {sum(len(run['problems']) for run in runs)} |",
        "",
        "| strike | times |",
        "|---|---|",
        *(f"| {what} | {times} |" for what, times in sorted(strikes.items())),
        "",
        "| run | pages asked for | answered 200 | no answer | answered 503 | answered 500 |",
        "|---|---|---|---|---|---|",
        *map(visits, runs),
        *remarks(runs),
    ]
    return "\n".join(lines) + "\n"


def row(called: str, run: dict[str, Any]) -> str:
    cells = [run[what] for what in ("recoveries", "succeeded", "strikes", "kills")]
    resumed = run["resumed_by_a_person"]
    share = f"{resumed / run['strikes']:.1%}" if run["strikes"] else "–"
    again = run.get("repeated_by_itself", "–")  # before steps did so
    cells += [run["unknown_steps"], again, resumed, share, f"{run['slowest_seconds']:.0f} s"]
    took = f"{run['seconds'] // 60} min {run['seconds'] % 60} s"
    return "| " + " | ".join(map(str, [called, *cells, took])) + " |"


def visits(run: dict[str, Any]) -> str:
    """A row on what the console answered to somebody who looked all the time."""
    found = Counter(run["answers"])
    cells = (found.total(), *(found[status] for status in ("200", "none", "503", "500")))
    return f"| {run['database']}, seed {run['seed']} | " + " | ".join(map(str, cells)) + " |"


def remarks(runs: Sequence[dict[str, Any]]) -> list[str]:
    """What was left out and what was not good, each said; and what somebody wrote beside a run (`remark`)."""
    lines = [f"Not done with seed {run['seed']}: {what}" for run in runs for what in run["left_out"]]
    for run in runs:
        said = [*run["problems"], *filter(None, [run.get("remark")])]
        lines += [f"- {run['database']}, seed {run['seed']}: {what}" for what in said]
        lines += [f"- {o['name']}: {o['state']}; {'; '.join(o['said'][-3:])}" for o in run["not_good"]]
    return ["", *lines] if lines else []
