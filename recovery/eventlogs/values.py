"""What an event log tells, as values: an application, and the runs of its streaming queries."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

MOST_RUNS: Final = 40
MOST_BATCHES: Final = 25
"""So many of the newest batches of a run are kept with their whole progress."""
MOST_WHOLE_RUNS: Final = 4
"""So many of the newest runs keep these; an older one of the same application keeps its last."""
TIME_ZONE: Final = "spark.sql.session.timeZone"
ANSI: Final = "spark.sql.ansi.enabled"
MOST_ROW_SETTINGS: Final = 60
_OF_ROWS: Final = re.compile(
    r"spark\.sql\.(?:session\.timeZone|timestampType|caseSensitive|storeAssignmentPolicy|mapKeyDedupPolicy|"
    r"columnNameOfCorruptRecord|streaming\.schemaInference|charAsVarchar|readSideCharPadding|"
    r"(?:ansi|avro|csv|decimalOperations|files|json|legacy|orc|parquet|parser|sources|xml)\.[\w.]{1,200})"
    r"|spark\.databricks\.delta\.schema\.autoMerge\.enabled"
)
_OF_SPEED: Final = re.compile(
    r"codec|compression|level|vectorized|batchSize|pushdown|maxPartition|minPartition|openCost|parallel|bucketing|"
    r"committer|commitProtocol|summary|useV1SourceList",
    re.IGNORECASE,
)
_UTC: Final = frozenset(
    {"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "+00:00"}
)


def is_row_setting(name: str) -> bool:
    """Is this a setting of a session by which the same code may yield other rows over the same input? None of them
    holds a secret."""
    return bool(_OF_ROWS.fullmatch(name) and not _OF_SPEED.search(name))


class RunState(StrEnum):
    """RUNNING: by the log alone; how long it has been silent is for the reader to judge. ENDED: without a failure.
    LEFT: its application has ended, and nothing was written of the query's own end."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    LEFT = "left"


@dataclass(frozen=True)
class Operator:
    """One stateful step of a plan, as Spark printed it. `keys`: the columns by which it keeps its state, as far as the
    plan says."""

    name: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """One run of a streaming query. Times in ms since 1970."""

    query_id: str
    run_id: str
    name: str = ""
    started_ms: int = 0
    ended_ms: int | None = None
    state: RunState = RunState.RUNNING
    #: the exception's whole text
    failure: str = ""
    #: as Spark names it
    error_class: str = ""
    #: the newest progresses, oldest first, as Spark wrote them
    batches: tuple[Mapping[str, Any], ...] = ()
    batches_in_all: int = 0
    #: of the newest plan that a batch had; None before one
    operators: tuple[Operator, ...] | None = None
    #: its place, if the plan names it
    checkpoint: str = ""
    #: When Spark last reported that it waits for input.
    idle_ms: int | None = None
    #: row settings of its session that differ from its application's, by its newest batch; None before one
    changed_row_settings: Mapping[str, str] | None = None

    @property
    def last_batch(self) -> int | None:
        number = self.batches[-1].get("batchId") if self.batches else None
        return number if isinstance(number, int) else None


@dataclass(frozen=True)
class Application:
    """One attempt of an application. `last_ms`: of its newest event; `ended_ms`: None while nothing says that it has
    ended. `left_out`: lines that were too long or no JSON. `runs`: oldest first."""

    app_id: str = ""
    attempt: str = ""
    name: str = ""
    user: str = ""
    version: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    last_ms: int | None = None
    left_out: int = 0
    runs: tuple[Run, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    def row_settings_of(self, run: Run | None) -> dict[str, str]:
        """The row settings of a session of this application, as far as logs name them, where they differ from those of
        Spark 4.2 in UTC. ANSI mode is on by default since Spark 4.0.

        `run`: the one, also of an earlier application, whose program set some after its start; None: none is known."""
        named = {ANSI: "false"} if self.version.startswith(("2.", "3.")) else {}
        named |= {**self.settings, **((run.changed_row_settings if run else None) or {})}
        settings = {
            name: value.lower() if value.lower() in ("true", "false") else value
            for name, value in named.items()
            if is_row_setting(name)
        }
        if settings.get(ANSI) == "true":
            del settings[ANSI]
        if settings.get(TIME_ZONE) in _UTC:
            del settings[TIME_ZONE]
        return settings

    def run(self, run_id: str) -> Run | None:
        return next((run for run in self.runs if run.run_id == run_id), None)

    def with_run(self, run: Run) -> "Application":
        """With this run in place of its older self; of more runs than are kept the newest ones."""
        if self.run(run.run_id) is None:
            kept = (*self.runs, run)[-MOST_RUNS:]
            return replace(
                self,
                runs=(*(_keep_last_batch(old) for old in kept[:-MOST_WHOLE_RUNS]), *kept[-MOST_WHOLE_RUNS:]),
            )
        return replace(
            self, runs=tuple(run if run_now.run_id == run.run_id else run_now for run_now in self.runs)
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _keep_last_batch(run: Run) -> Run:
    return replace(run, batches=run.batches[-1:])


def application_from(stored: Mapping[str, Any]) -> Application:
    """As `as_json` wrote it."""
    runs = tuple(_run_from(run) for run in stored.get("runs") or ())
    return Application(**{**stored, "runs": runs})


def _run_from(stored: Mapping[str, Any]) -> Run:
    stored_operators = stored.get("operators")
    operators = (
        None
        if stored_operators is None
        else tuple(Operator(o["name"], tuple(o["keys"])) for o in stored_operators)
    )
    state, batches = RunState(stored["state"]), tuple(stored.get("batches") or ())
    return Run(**{**stored, "operators": operators, "state": state, "batches": batches})
