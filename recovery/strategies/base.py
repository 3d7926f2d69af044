"""Facts, forecast and the shape of a strategy: facts -> steps, forecast, criteria, rollback. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery.checkpoints.repair import RepairPlan
from recovery.checkpoints.report import CheckpointReport, Finding
from recovery.sinks.base import SinkReport
from recovery.sources.base import Distance, SourceFacts


@dataclass(frozen=True)
class CodeFacts:
    """Source of the pipeline as the workspace holds it, and what Spark says this flow's query is.

    `files` maps workspace path to text. `operators` are the stateful operators of the flow's query
    by Spark's names, outermost first; None: the code could not be analysed (`problem` says why).
    """

    files: Mapping[str, str]
    operators: tuple[str, ...] | None
    problem: str | None = None
    sources: tuple[Mapping[str, Any], ...] = ()  # {format, path, options} in plan order
    key: tuple[str, ...] = ()  # columns by which rows are told apart; () = the whole row
    key_from: str = "the whole row"
    windows: str = ""  # how rows are put into windows, as a digest; "": that cannot be told


@dataclass(frozen=True)
class Counts:
    """Rows counted on Spark just now. None: could not be counted.

    `processed` / `waiting` / `everything`: rows the code yields over the files already committed, the
    unread ones, and both together (which differs from their sum where the code drops repeats).
    `table`: rows the table holds. `repeats_waiting`: waiting rows whose key is in the table already.
    `waiting` counts from where the stream shall start (`SourceFacts.begins`).
    `swallowed(files)`-style questions of the empty strategy are answered from `by_file`.
    """

    table: int | None = None
    processed: int | None = None
    waiting: int | None = None
    everything: int | None = None
    repeats_waiting: int | None = None
    fresh_waiting: int | None = None  # different keys among the waiting rows that the table does not hold
    repeats_processed: int | None = None
    reread: int | None = None  # rows of committed input that a chosen start reads again
    skipped: int | None = None  # rows of unread input that a chosen start never reads
    rehearsed: bool = False  # `waiting` is what a rehearsal of the code's own query wrote, from empty state
    rehearsed_late: int | None = (
        None  # rows that it dropped behind the watermark; of a window, groups of them
    )
    rehearsed_later: int | None = None  # of those, behind a later watermark than it began with
    unread_late: int | None = None  # the same of a rehearsal over the rows that were never read alone
    rehearsed_why: str = ""  # why an update may write fewer rows; "": it writes the same
    by_file: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """Everything a decision may look at; gathered once, by `workflow.gather`.

    `sources`: those of the new code, in plan order. One that the checkpoint does not have has no committed position.
    `old_sources`: those of the old code, where it reads otherwise (`revert.put_back`).
    """

    gathered_at: str
    workspace: str
    environment: str
    pipeline_id: str
    pipeline: str
    flow: str  # verbatim, as the API sends it
    dataset: str  # catalog.schema.table
    active_update: str | None
    last_update: str | None
    checkpoint: CheckpointReport
    sink: SinkReport
    sources: tuple[SourceFacts, ...]
    old_code: CodeFacts | None  # of the last good update, where known
    code: CodeFacts  # as deployed
    new_code: CodeFacts  # with the proposed patch (equal to `code` without one)
    counts: Counts  # with new_code
    old_counts: Counts | None = None  # with old_code
    old_sources: tuple[SourceFacts, ...] | None = None  # as old_code reads them; None: as new_code does
    old_problem: str = ""  # why they could not be looked at
    others: Mapping[str, str] = field(default_factory=dict)  # other flows and tables -> fingerprint
    usual_update_seconds: float | None = None
    diagnosis: Mapping[str, Any] = field(default_factory=dict)
    repair: RepairPlan | None = None  # None: nothing in the checkpoint is damaged
    beside: tuple[
        str, ...
    ] = ()  # flows that an update of a declared sink runs too: no selection can name a sink
    between: tuple[Finding, ...] = ()  # what other flows share with this one and must not
    source_map: tuple[
        int | None, ...
    ] = ()  # of each of `sources`: its index in the checkpoint; () = one to one
    confirmed: tuple[str, ...] = ()  # keys of `mapping.Proposal.unconfirmed` that a person has confirmed
    unread_of: Mapping[int, Distance] = field(
        default_factory=dict
    )  # what waits in a checkpoint's source that the new code leaves behind, by index
    yields_of: Mapping[int, int] = field(default_factory=dict)  # rows that the old code would write of it


@dataclass(frozen=True)
class Amount:
    """How many rows and files, between which places, exactly or not, and why."""

    rows: int | None
    files: int
    start: str | None
    end: str | None
    exact: bool
    why: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "files": self.files,
            "from": self.start,
            "to": self.end,
            "exact": self.exact,
            "why": self.why,
        }


@dataclass(frozen=True)
class Forecast:
    """What a strategy will do to rows. `new_rows`: by how much the table grows; `table_after`: its rows then."""

    lost: Amount
    doubled: Amount
    reread: Amount
    new_rows: int | None
    table_after: int | None
    state: str
    seconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "lost": self.lost.as_dict(),
            "doubled": self.doubled.as_dict(),
            "reread": self.reread.as_dict(),
            "new_rows": self.new_rows,
            "table_after": self.table_after,
            "state": self.state,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class StepSpec:
    """One step of a plan: kind, the sentence people read, arguments (JSON)."""

    kind: str
    says: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Criterion:
    """One thing to be measured after the rerun; `expected` is fixed when the plan is sealed."""

    code: str
    says: str
    expected: Any


@dataclass(frozen=True)
class Option:
    """One strategy judged for one flow. `blocked`: why it cannot run (None: it can).

    `as_dict` is what pages, plans and commands show.
    """

    strategy: str
    title: str
    summary: str
    blocked: str | None
    forecast: Forecast
    findings: tuple[Finding, ...]
    steps: tuple[StepSpec, ...]
    criteria: tuple[Criterion, ...]
    rollback: str
    code_live: str
    table_meanwhile: str
    recommended: bool = False
    positions: tuple[Mapping[str, Any], ...] = ()
    mapping: Mapping[str, Any] | None = None  # which sources are which, where they are not one to one

    def as_dict(self) -> dict[str, Any]:
        return {
            "strategy": self.strategy,
            "title": self.title,
            "summary": self.summary,
            "blocked": self.blocked,
            "recommended": self.recommended,
            "forecast": self.forecast.as_dict(),
            "findings": [f.as_dict() for f in self.findings],
            "steps": [{"kind": s.kind, "says": s.says, "args": dict(s.args)} for s in self.steps],
            "criteria": [{"code": c.code, "says": c.says, "expected": c.expected} for c in self.criteria],
            "rollback": self.rollback,
            "code_live": self.code_live,
            "table_meanwhile": self.table_meanwhile,
            "positions": [dict(p) for p in self.positions],
            "mapping": None if self.mapping is None else dict(self.mapping),
        }
