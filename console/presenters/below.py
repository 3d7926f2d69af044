"""What is below a flow and does not show what the flow wrote, in people's words."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from console.presenters import status, words
from console.presenters.doubting import flow_badge
from recovery.contracts.amounts import RowAmount
from recovery.contracts.forecast import Downstream, DownstreamEffect, DownstreamReason
from recovery.contracts.measured import Measured
from recovery.contracts.refreshed import RefreshedDataset
from recovery.contracts.results import NamedBy, NamingJob
from recovery.models import Flow, Recovery
from recovery.pipelines.behind import behind_of, since_of
from recovery.pipelines.downstream import BehindReason, BehindState, Node
from recovery.verification.below import DONE
from recovery.workflow.counting_below import BelowCount, CountPhase, DatasetCount, RowCount, UncountedReason
from recovery.workflow.doubting import Doubt
from recovery.workflow.jobs_below import JobsBelow
from recovery.workflow.refreshing import BelowRefresh, RefreshPhase, late_below
from recovery.workflow.usual import usual_steps

WHY: Final = {
    BehindReason.EMPTIED: "An update emptied it at set-up and ended before filling it.",
    BehindReason.NOT_REACHED: "Its input failed first, so the update skipped it.",
    BehindReason.LEFT_OUT: "An update wrote its input and left it out.",
    BehindReason.OF_BEHIND: "It reads a dataset that is itself behind.",
    BehindReason.RENEWED: "Another pipeline has since emptied, rewritten or repaired its input.",
}


NOT_KNOWN: Final = {
    UncountedReason.NOT_COUNTED: "not counted",
    UncountedReason.CHANGED: "an update may have changed it since the count",
    UncountedReason.ELSEWHERE: "defined in another pipeline",
    UncountedReason.INPUT_BEHIND: "what it reads is behind too",
    UncountedReason.UNSURE: "its definition may yield another number at each run",
}


@dataclass(frozen=True)
class Cell:
    """A number of rows. `code`: `known`, else why it is not; `value`: the number, for `data-value`."""

    text: str
    small: str
    code: str
    value: str = ""


@dataclass(frozen=True)
class DatasetRow:
    """One dataset below."""

    flow: Flow
    name: str
    #: with its pipeline, if that is another one
    kind: str
    badge: status.Badge
    since: datetime | None
    why: str
    #: what a refresh does to it, or the next update of its pipeline
    refresh: str
    #: rows it holds
    now: Cell
    #: rows it should hold
    should: Cell
    #: by how many rows it differs
    differs: str


def kind_of(flow: Flow) -> str:
    return "table" if flow.streaming else "view"


def explain_behind(flow: Flow) -> str:
    """What is wrong with a dataset that is behind, and how it came; "" where it is not."""
    behind = behind_of(flow)
    if behind is None or flow.state not in tuple(BehindState):
        return ""
    return say_behind(BehindState(flow.state), behind.why)


def say_behind(state: BehindState, why: BehindReason) -> str:
    """The state of a dataset that is behind, and how it came to that."""
    holds = "It holds no rows." if state is BehindState.EMPTY else "It is older than what it reads."
    return f"{holds} {WHY[why]}"


def dataset_rows(
    flow: Flow,
    datasets: Iterable[tuple[Node, Flow]],
    held: Mapping[int, DatasetCount],
    now: datetime,
    doubts: Mapping[int, Doubt],
) -> list[DatasetRow]:
    """Every dataset below the flow's own, nearest first; `datasets`: as `across.flows_below` has them."""
    rows = [
        _dataset_row(node, held[node.pk], now, outside=node.pipeline_id != flow.pipeline_id)
        for _, node in datasets
    ]
    return [replace(row, badge=flow_badge(row.flow, doubts.get(row.flow.pk))) for row in rows]


def _dataset_row(flow: Flow, held: DatasetCount, at: datetime, *, outside: bool) -> DatasetRow:
    refresh = "appends what it has not read" if flow.streaming else "recomputes it"
    kind = kind_of(flow)
    if outside:
        refresh = f"nothing; the next update of pipeline {flow.pipeline.name} {refresh}"
        kind = f"{kind}, pipeline {flow.pipeline.name}"
    badge = status.state_badge(status.FLOW, flow.state)
    return DatasetRow(
        flow,
        words.last_part(flow.dataset),
        kind,
        badge,
        since_of(flow),
        explain_behind(flow),
        refresh,
        _rows_cell(held.now, at),
        _rows_cell(held.should, at),
        _difference_text(held.missing, held.extra),
    )


def _rows_cell(rows: RowCount, now: datetime) -> Cell:
    if rows.why is not None or rows.rows is None:
        why = rows.why or UncountedReason.NOT_COUNTED
        return Cell("not known", rows.problem or NOT_KNOWN.get(why, ""), why.value)
    by = f" by {rows.by}" if rows.by else ""
    small = f"{words.format_clock(rows.at, now)}{by}" if rows.at else ""
    return Cell(words.format_count(rows.rows, "row"), small, "known", str(rows.rows))


def _difference_text(missing: int | None, extra: int | None) -> str:
    """`3 missing, 1 too many`; "" where it agrees or is not known: equal numbers may be other rows."""
    parts = ((missing, "missing"), (extra, "too many"))
    return ", ".join(f"{words.format_number(rows)} {word}" for rows, word in parts if rows)


@dataclass(frozen=True)
class BelowCountStatus:
    """How the last count below went. `says`: in a sentence, "" where no one asked; `waits`: a worker is at it."""

    code: str
    says: str
    waits: bool = False


def counted_below(flow: Flow, now: datetime) -> BelowCountStatus:
    """As the flow's row keeps it."""
    asked = BelowCount.from_json(flow.below_count)
    if asked is None:
        return BelowCountStatus("never", "")
    by, ago = asked.by, words.format_ago(asked.at, now)
    says = {
        CountPhase.COUNTED: f"{by} had the rows counted {ago}.",
        CountPhase.FAILED: f"{by} asked for a count {ago}; it failed: {asked.problem}",
    }.get(asked.phase, f"{by} asked for a count {ago}.")
    if asked.waits:
        return BelowCountStatus(asked.phase.value, f"{says} Spark is counting.", waits=True)
    lost = asked.phase in (CountPhase.ASKED, CountPhase.COUNTING)
    return BelowCountStatus(
        "lost" if lost else asked.phase.value, f"{says} It did not end. Count again." if lost else says
    )


@dataclass(frozen=True)
class Feeder:
    """A flow that writes what a dataset reads, and what can be done there. `code`: the flow's state."""

    flow: Flow
    says: str
    code: str


def list_feeders(flow: Flow, writers: Iterable[Flow]) -> list[Feeder]:
    """Where a dataset that is behind is repaired, failing flows first; [] of one that is not behind."""
    if flow.state not in tuple(BehindState):
        return []
    what = kind_of(flow)
    says = {
        "failed": f"It feeds this {what}, and fails: recover it first.",
        "ok": f"It feeds this {what}. Its page refreshes what is below.",
    }
    rows = [
        Feeder(w, says.get(w.state, f"It feeds this {what}."), w.state) for w in writers if w.pk != flow.pk
    ]
    return sorted(rows, key=lambda r: r.code != "failed")


def list_behind(datasets: Iterable[DatasetRow]) -> list[DatasetRow]:
    """Those of which someone has to know, the empty ones first."""
    late = [r for r in datasets if r.flow.state in tuple(BehindState)]
    return sorted(late, key=lambda r: r.flow.state != BehindState.EMPTY)


def describe_below(late: list[DatasetRow]) -> tuple[str, str]:
    """What is so below a flow that is itself as it should be, and what it means."""
    empty = [r for r in late if r.flow.state == BehindState.EMPTY]
    named = ", ".join(f"{kind_of(r.flow)} {r.name}" for r in empty or late)
    state = "empty" if empty else "out of date"
    verb = "are" if len(empty or late) > 1 else "is"
    first = (empty or late)[0]
    since = f" since {first.since:%H:%M:%S} UTC" if first.since and len(empty or late) == 1 else ""
    return (
        f"What this flow feeds is not as it should be: {named} {verb} {state}{since}.",
        f"{first.why} An update that selects it repairs it.".strip(),
    )


@dataclass(frozen=True)
class Refresh:
    """What a refresh below does, on the button's line. `says`: with its usual time where one is known; `left`: what it
    leaves out and why; `asked`: how the last request went, "" for none. `possible`: is there anything to refresh?"""

    possible: bool
    says: str
    left: tuple[str, ...] = ()
    asked: str = ""
    waits: bool = False


def refresh_offer(flow: Flow, late: list[DatasetRow], now: datetime) -> Refresh | None:
    """None where the flow is not ok itself, or nothing below it is late."""
    if flow.state != "ok" or not late:
        return None
    late_datasets = late_below(flow)
    usual = usual_steps(flow).get("refresh")
    took = f", about {words.format_duration(usual.seconds)}" if usual else ""
    kinds = Counter(kind_of(f) for f in late_datasets.flows)
    named = " and ".join(words.format_count(n, kind) for kind, n in sorted(kinds.items(), reverse=True))
    says = f"Refreshes {named}{took}. The flow and its checkpoint stay as they are." if named else ""
    again = [
        f"Left out: {words.last_part(f.dataset)}. What it reads was rewritten, so an update would append these rows "
        "a second time. A full refresh of it sets that right."
        for f in late_datasets.rewritten
    ]
    others = sorted({r.flow.pipeline.name for r in late if r.flow.pipeline_id != flow.pipeline_id})
    again += [f"Pipeline {name} has to run for what it writes." for name in others]
    asked = BelowRefresh.from_json(flow.below_refresh)
    return Refresh(
        bool(named), says, tuple(again), _asked_text(asked, now), asked is not None and asked.waits
    )


def _asked_text(asked: BelowRefresh | None, now: datetime) -> str:
    if asked is None:
        return ""
    by = f"{asked.by} asked for a refresh {words.format_ago(asked.at, now)}"
    if asked.phase is RefreshPhase.STARTED:
        return (
            f"{by}: update {asked.update_id} was started. Its result shows here once the poller has seen it."
        )
    if asked.phase is RefreshPhase.REFUSED:
        return f"{by}; it was not started: {asked.problem}"
    if asked.phase is RefreshPhase.SENT:
        return f"{by}; whether its update began is not known. Look at the pipeline's events. {asked.problem}".strip()
    return f"{by}; a worker starts it." if asked.waits else f"{by}; no worker took it. Ask again."


EFFECT: Final = {
    DownstreamEffect.REFRESHED: status.Badge("ok", "Refreshed"),
    DownstreamEffect.STALE: status.Badge("attention", "Stays stale"),
    DownstreamEffect.EMPTIED: status.Badge("failed", "Stays empty"),
    DownstreamEffect.DOUBLED: status.Badge("failed", "Gets rows twice"),
    DownstreamEffect.UNKNOWN: status.Badge("unknown", "Not known"),
}
LACKS: Final = status.Badge("attention", "Refreshed, lacks rows")
"""Of a dataset that the plan refreshes, and that the rows which it loses never reach."""
REASON: Final = {
    DownstreamReason.LEFT_OUT: "The plan leaves it out; the next update that selects it brings it up to date.",
    DownstreamReason.ELSEWHERE: "Another pipeline writes it: start an update of that one once this recovery is proven.",
    DownstreamReason.FAILING: "Its own flow fails; recover that one too.",
    DownstreamReason.NOT_SEEN: "No update that is known has run its flow.",
    DownstreamReason.REPEATS: "It reads the table as a stream, so the next update that selects it appends these "
    "rows once more.",
    DownstreamReason.TABLE_ANEW: "It reads as a stream what is emptied and written again; it may need a full "
    "refresh of its own.",
    DownstreamReason.TABLE_PUT_BACK: "It reads as a stream a table that is put back and goes on from an earlier "
    "batch: it may fail, or keep the old rows next to the new ones. It may need its own full refresh.",
    DownstreamReason.ROWS_REMOVED: "It reads the table as a stream, and Delta fails that stream at the commit that "
    "deletes rows, unless it skips that commit (skipChangeCommits). It keeps the repeats that it has read. It may need "
    "a full refresh of its own.",
    DownstreamReason.ROWS_UNKNOWN: "Whether rows reach it twice is not known.",
    DownstreamReason.READS_STALE: "It is refreshed, and also reads a dataset that is out of date, which the plan "
    "does not touch.",
    DownstreamReason.OF_BEHIND: "It reads a dataset that the plan leaves behind. An update of both repairs it.",
}


@dataclass(frozen=True)
class EffectRow:
    """What a plan does to one dataset below. `code`: the effect, for `data-code`."""

    dataset: str
    name: str
    kind: str
    code: str
    badge: status.Badge
    rows: str
    why: str
    #: rows that the plan loses and that so never reach it: `lacks 3 lost rows`; "" where it loses none
    fewer: str = ""
    #: their number for `data-value`, or `not-known`
    fewer_code: str = ""


def effect_rows(datasets: Iterable[Downstream]) -> list[EffectRow]:
    """Each as a sealed plan or an option says."""
    return [_effect_row(dataset) for dataset in datasets]


def _effect_row(dataset: Downstream) -> EffectRow:
    kind = "view" if dataset.view else "streaming table"
    place = f"pipeline {dataset.pipeline}" if dataset.pipeline else "this pipeline"
    rows = "" if dataset.rows is None else words.format_count(dataset.rows, "row")
    fewer, fewer_code = _loss_text(dataset.fewer)
    lacks = bool(fewer) and dataset.effect is DownstreamEffect.REFRESHED
    return EffectRow(
        dataset.dataset,
        words.last_part(dataset.dataset),
        f"{kind}, {place}",
        dataset.effect.value,
        LACKS if lacks else EFFECT[dataset.effect],
        rows,
        REASON[dataset.reason] if dataset.reason else "",
        fewer,
        fewer_code,
    )


def _loss_text(fewer: RowAmount | None) -> tuple[str, str]:
    """What of a loss reaches a dataset, and its number for `data-value`."""
    if fewer is None:
        return "", ""
    if fewer.rows is None:
        return "lacks lost rows; how many is not known", "not-known"
    noun = "lost row" if fewer.rows == 1 else "lost rows"
    return f"lacks {words.format_bounded(fewer.rows, fewer.bound)} {noun}", str(fewer.rows)


@dataclass(frozen=True)
class BelowChoice:
    """What the chosen strategy does below, before a plan is sealed. `refresh`: the plan will refresh it.

    `effects`: None where they were not counted with this choice.
    """

    refresh: bool
    effects: list[EffectRow] | None


def refresh_choice(recovery: Recovery) -> BelowChoice | None:
    """None where nothing is below, or no one has counted yet."""
    chosen = recovery.chosen
    option = recovery.gathered.option_of(chosen.strategy)
    downstream = option.forecast.downstream if option else ()
    if not downstream:
        return None
    left_out = not chosen.refresh_below
    counted = left_out or not any(dataset.reason is DownstreamReason.LEFT_OUT for dataset in downstream)
    return BelowChoice(not left_out, [_effect_row(dataset) for dataset in downstream] if counted else None)


@dataclass(frozen=True)
class ComparedDataset:
    """One dataset that a plan refreshed, as the proof found it. `code`: agrees, differs, not-refreshed, not-compared or
    not-known."""

    dataset: str
    name: str
    kind: str
    should: str
    holds: str
    differs: str
    badge: status.Badge
    why: str
    code: str


def compare_refreshed(measured: Measured | None) -> list[ComparedDataset]:
    """What the proof measured of every dataset that the plan refreshed."""
    return [_compared_row(outcome) for outcome in measured.downstream] if measured else []


RESULT: Final = {
    "agrees": status.Badge("ok", "Agrees"),
    "differs": status.Badge("failed", "Differs"),
    "not-refreshed": status.Badge("failed", "Not refreshed"),
    "not-compared": status.Badge("unknown", "Not compared"),
    "not-known": status.Badge("unknown", "Not known"),
}


def _compared_row(outcome: RefreshedDataset) -> ComparedDataset:
    code, why = _compared_result(outcome)
    return ComparedDataset(
        outcome.dataset,
        words.last_part(outcome.dataset),
        "view" if outcome.view else "streaming table",
        "not known" if outcome.expected_rows is None else words.format_count(outcome.expected_rows, "row"),
        "not counted" if outcome.rows is None else words.format_count(outcome.rows, "row"),
        _difference_text(outcome.missing, outcome.extra),
        RESULT[code],
        why,
        code,
    )


def _compared_result(outcome: RefreshedDataset) -> tuple[str, str]:
    """Code, and why it is not known or what was left out."""
    if outcome.status != DONE:
        return "not-refreshed", f"Its update reports {outcome.status or 'nothing'}."
    if not outcome.compared:
        return "not-compared", ""
    if outcome.agrees is True:
        left_out = ", ".join(outcome.left_out)
        return "agrees", f"but for {left_out}" if left_out else ""
    if outcome.agrees is False:
        return "differs", ""
    unsure = ", ".join(outcome.unsure)
    return "not-known", outcome.problem or (f"differs at each run: {unsure}" if unsure else "")


def measured_rows(outcomes: Iterable[RefreshedDataset]) -> str:
    """What was measured of each dataset below, on one line."""
    return "; ".join(map(_measured_text, outcomes)) or "nothing"


def _measured_text(outcome: RefreshedDataset) -> str:
    name, status_ = words.last_part(outcome.dataset), (outcome.status or "not known").lower()
    if outcome.expected_rows is None:
        return f"{name}: {status_}, not compared"
    counted = f"{words.format_count(outcome.rows, 'row')} of {words.format_number(outcome.expected_rows)}"
    return f"{name}: {status_}, {counted}, {outcome.missing} missing, {outcome.extra} too many"


@dataclass(frozen=True)
class NamedJobs:
    """What is known of jobs that read a table, or what is below it. `code`: for `data-code`; `rows`: a job each."""

    code: str
    says: str
    rows: list[str]
    at: datetime | None = None


def jobs_view(known: JobsBelow | None) -> NamedJobs:
    """A job that no one found may read it all the same: no call tells what a notebook or a program reads."""
    if known is None:
        return NamedJobs(
            "jobs-not-asked",
            "Jobs that read it are not known: the workspace is asked when a recovery stops the pipeline.",
            [],
        )
    if known.jobs is None:
        return NamedJobs("jobs-not-known", f"Jobs that read it are not known. {known.why}", [], known.at)
    if not known.jobs:
        says = "No job of the workspace names it in a trigger or a parameter."
        return NamedJobs("jobs-none-named", says, [], known.at)
    return NamedJobs(
        "jobs-named", "Jobs of the workspace that name it:", [_job_row(j) for j in known.jobs], known.at
    )


def _job_row(job: NamingJob) -> str:
    dataset = words.last_part(job.dataset)
    if job.by is NamedBy.TRIGGER:
        return f"Job {job.name} starts when {dataset} changes."
    parameter = f"parameter {job.parameter}" if job.parameter else "a parameter"
    of_task = f" of task {job.task}" if job.task else ""
    return f"Job {job.name} has {dataset} in {parameter}{of_task}; whether it reads it is not known."
