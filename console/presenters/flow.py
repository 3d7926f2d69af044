"""The flow page: header, facts, the graph around the flow. Pure over rows already read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.urls import reverse

from console.presenters import below, dag, status, words
from console.presenters.doubting import doubt_badge, flow_badge
from console.presenters.inventory import first_sentence, waiting_elsewhere
from console.presenters.unread import Panel
from recovery.contracts.diagnosis import ChainedError, Diagnosis
from recovery.contracts.facts import GatheredFacts
from recovery.contracts.measured import Measured
from recovery.contracts.updates import CHECKPOINT_GONE
from recovery.diagnosis.judgement import title_by_error
from recovery.models import Flow, Recovery
from recovery.pipelines.alone import health_of, say_pipeline
from recovery.pipelines.behind import since_of
from recovery.pipelines.downstream import Node
from recovery.pipelines.failures import PipelineFault, PipelineState
from recovery.workflow.doubting import Doubt
from recovery.workflow.outdated import Outdating, outdating_of
from recovery.workflow.waiting import WaitingFiles


@dataclass(frozen=True)
class Fact:
    name: str
    value: str
    small: str = ""
    #: of `data-code`, where a test or a program looks for it
    code: str = ""


@dataclass(frozen=True)
class Tab:
    slug: str
    name: str
    count: int | None = None


def header_badge(
    flow: Flow, now: datetime, late: Sequence[below.DatasetRow] = (), doubt: Doubt | None = None
) -> status.Badge:
    """The badge beside the name: `Failed since 02:40:27 UTC`. `late`: what is below the flow and behind it. `doubt`:
    what speaks against a flow that is ok or runs."""
    badge = status.state_badge(status.FLOW, flow.state)
    if _of_pipeline(flow):
        cancelled = flow.pipeline.failure.get("condition") == PipelineFault.CANCELLED
        whole = "update cancelled" if cancelled else "pipeline failed"
        return status.Badge("attention", f"{badge.word}, {whole}")
    if doubt is not None:
        return doubt_badge(doubt)
    if late and flow.state == "ok":
        return status.Badge(
            "attention", f"OK, {below.kind_of(late[0].flow)} below {late[0].badge.word.lower()}"
        )
    if flow.state == "failed" and flow.failing_since:
        return status.Badge(badge.kind, f"Failed since {words.format_clock(flow.failing_since, now)}")
    if since := since_of(flow):
        return status.Badge(badge.kind, f"{badge.word} since {words.format_clock(since, now)}")
    return badge


NOT_RUNNING: Final = status.Badge("stopped", "Not running")
QUIET_SENTENCE: Final = (
    "The stream does not run.",
    "Its running command says so, and answered later than its event log was written. How its last run ended is shown "
    "after the next poll.",
)
"""Of a stream that the newest poll saw running."""


def written_name(flow: Flow) -> str:
    """What the flow writes: a table, a view, or a sink, which Spark names without a catalog and a schema."""
    if not flow.streaming:
        return "view"
    return "table" if "." in flow.dataset or not flow.dataset else "sink"


def flow_sentence(
    flow: Flow,
    diagnosis: Diagnosis | None,
    late: Sequence[below.DatasetRow] = (),
    doubt: Doubt | None = None,
    *,
    unwatched: bool = False,
) -> tuple[str, str]:
    """What is so, in one sentence, and what it means. `late`: what is below the flow and behind it. `doubt`: what
    speaks against a flow that is ok or runs. `unwatched`: nothing shows whether the stream runs."""
    if flow.state == "failed":
        why = diagnosis or Diagnosis()
        says = why.says or "The error was not recognised; it is below as it came."
        return why.title or first_sentence(flow.causes), f"{says} {say_damage(why)}".strip()
    if says := below.explain_behind(flow):
        what, state = written_name(flow), status.state_badge(status.FLOW, flow.state).word.lower()
        return f"This {what} is {state}.", says
    if whole := _of_pipeline(flow):
        return whole
    if doubt is not None:
        return doubt.title, doubt.text
    if late and flow.state == "ok":
        return below.describe_below(list(late))
    if flow.state == "unknown" and flow.condition:
        says = title_by_error(flow.causes, flow.condition)
        if flow.condition == CHECKPOINT_GONE:  # that is known, and what to do before it is started
            return says, " ".join(diagnosis.do[:2]) if diagnosis else ""
        damage = say_damage(diagnosis) if diagnosis else ""
        return "The state of this flow is not known.", f"{says} {damage}".strip()
    if flow.state == "unknown" and unwatched:
        return UNWATCHED
    is_stream = flow.pipeline.workspace.has_streams
    run = flow.pipeline.workspace.run_noun
    result = "The page shows its result once the poller has seen it."
    return {
        "ok": (NOTHING_WRONG, f"Its last {run} ended well. {PROOF_ONLY}"),
        "running": ("The stream runs." if is_stream else "An update is running.", result),
        "stopped": (
            "This flow is stopped.",
            f"No {run} is {'seen' if is_stream else 'active'}; it did not fail.",
        ),
    }.get(
        flow.state, ("The state of this flow is not known.", "Look at its events, or wait for the next poll.")
    )


UNWATCHED: Final = (
    "Whether this stream runs is not known.",
    "No event log and no running command is named, so no poll can see it. Its checkpoint shows how far it has come.",
)
NOTHING_WRONG: Final = "Nothing shows that this flow is wrong."
PROOF_ONLY: Final = "Rows are compared by the proof of a recovery alone."


def _of_pipeline(flow: Flow) -> tuple[str, str] | None:
    """Where the newest update failed or was cancelled beside this flow, which is well or was stopped with it."""
    health = health_of(flow.pipeline)
    whole = health.failure is not None and health.failure.is_whole
    if flow.state not in ("ok", "stopped") or health.state is not PipelineState.FAILED or not whole:
        return None
    well = "ended well" if flow.state == "ok" else "was stopped"
    return f"This flow {well}, but its pipeline is not as it should be.", say_pipeline(flow.pipeline)


def say_damage(diagnosis: Diagnosis) -> str:
    """`Nothing is damaged.`; else what is. Empty where that was not judged."""
    if diagnosis.is_anything_damaged is None:
        return ""
    return f"Damaged: {diagnosis.damaged}." if diagnosis.is_anything_damaged else "Nothing is damaged."


def list_facts(
    flow: Flow,
    recovery: Recovery | None,
    last: Recovery | None,
    waits: WaitingFiles,
    now: datetime,
    *,
    late: Sequence[below.DatasetRow] = (),
    panel: Panel | None = None,
) -> list[Fact]:
    """Facts across; what was not counted says so. `last`: the newest recovery that measured the table. `late`: what is
    below and behind. `panel`: what the last look at the sources saw."""
    gathered = _waiting_facts(recovery)
    sink = Fact("Sink", flow.dataset, "a recovery counts what it sends")
    streams = [
        _last_batch(flow, now),
        *(_counted_facts(gathered, now) if gathered else _listed_facts(waits, panel, now)),
        sink if written_name(flow) == "sink" else _table_fact(recovery, last, now),
    ]
    return [
        _standing_fact(flow, last, now),
        *(streams if flow.streaming else ()),
        *(_late_fact(r, now) for r in late[:2]),
    ]


def _standing_fact(flow: Flow, last: Recovery | None, now: datetime) -> Fact:
    """Since when it fails; of one that is right, the proof that says so."""
    if flow.failing_since and flow.state == "failed":
        return Fact(
            "Failing since",
            words.format_clock(flow.failing_since, now),
            words.format_ago(flow.failing_since, now),
        )
    proof = last.proof if last and last.state == "succeeded" else None
    if flow.state in ("failed", "unknown"):
        return Fact("Failing since", "not known")
    if last is None or flow.state != "ok" or not (proof and proof.criteria):
        return Fact("Failing since", "not failing")
    at = words.format_clock(proof.at, now)
    return Fact("Last proof", at, f"{last.label}, {proof.holding} of {len(proof.criteria)} criteria hold")


def _last_batch(flow: Flow, now: datetime) -> Fact:
    at = words.parse_moment((flow.last_progress or {}).get("timestamp"))
    if flow.last_batch is None:
        return Fact("Last batch seen", "none", "the checkpoint may hold batches")
    batch = f"batch {flow.last_batch:,}"
    return Fact(
        "Last batch seen", batch, f"{words.format_clock(at, now)}, {words.format_ago(at, now)}" if at else ""
    )


def _late_fact(row: below.DatasetRow, now: datetime) -> Fact:
    """A dataset below that is behind: its rows, where they are known, else its state."""
    should = f"{row.should.text} should be there; " if row.should.code == "known" else ""
    since = (
        f"{row.badge.word.lower()} since {words.format_clock(row.since, now)}"
        if row.since
        else row.badge.word.lower()
    )
    value = row.now.text if row.now.code == "known" else row.badge.word.lower()
    return Fact(f"{below.kind_of(row.flow).capitalize()} {row.name}", value, f"{should}{since}")


def _gathered_facts(recovery: Recovery | None) -> GatheredFacts | None:
    """What the open recovery counted, by running the code on Spark; None where it has not."""
    gathered = recovery.gathered if recovery else None
    return gathered if gathered and gathered.is_ready else None


def _waiting_facts(recovery: Recovery | None) -> GatheredFacts | None:
    """As `_gathered_facts`, until a rerun begins or a newer batch is seen: that may have read what waited."""
    gathered = _gathered_facts(recovery)
    return None if recovery is None or outdating_of(recovery) else gathered


def waiting_rows(recovery: Recovery | None) -> int | None:
    """How many rows the next batch would read, where the open recovery counted them and that is still so."""
    gathered = _waiting_facts(recovery)
    return gathered.waiting_rows if gathered else None


def counted_files(recovery: Recovery | None) -> WaitingFiles | None:
    """The files that wait as the open recovery counted them; None where it has not, or that is no longer so."""
    gathered = _waiting_facts(recovery)
    at = words.parse_moment(gathered.at) if gathered else None
    if gathered is None or at is None:
        return None
    return WaitingFiles(at, files=len(gathered.waiting_files), filtered=True)


def _counted_facts(gathered: GatheredFacts, now: datetime) -> list[Fact]:
    at, rows = words.format_clock(gathered.at, now), waiting_elsewhere(gathered.positions)
    if rows is not None:
        return [Fact("Waiting", words.format_count(rows, "row"), f"counted {at}")]
    waiting = gathered.waiting_files
    files = (
        f"{words.format_count(len(waiting), 'file')}, {words.format_size(sum(file.size for file in waiting))}"
    )
    read = f"{gathered.processed_files:,} read, {len(waiting):,} not"
    return [
        Fact("Waiting", words.format_count(gathered.waiting_rows, "row"), files),
        Fact("Files", read, f"counted {at}"),
    ]


def _looked_at_fact(panel: Panel | None, now: datetime) -> Fact | None:
    """What waits, as the last look counted it; None where a source was not counted, or a batch came later."""
    if panel is None or panel.why or panel.batch_since is not None:
        return None
    seen = [s.row.seen_at for s in panel.sources if s.row.seen_at and s.waits and not s.row.problem]
    if not seen or len(seen) < len(panel.sources):
        return None
    amounts = "; ".join(", ".join(waits.text for waits in s.waits) for s in panel.sources)
    return Fact("Waiting", amounts, f"counted {words.format_clock(min(seen), now)}")


def _listed_facts(waits: WaitingFiles, panel: Panel | None, now: datetime) -> list[Fact]:
    if waits.files is None:
        return [_looked_at_fact(panel, now) or Fact("Waiting", "not known", waits.why)]
    seen = f"listed {words.format_clock(waits.at, now)}"
    size = f"{words.format_size(waits.size)}, " if waits.files else ""
    filters = "" if waits.filtered else "; filters of the code not applied"
    present = f"{waits.read:,} of {waits.read + waits.gone:,}"
    return [
        Fact(
            "Waiting",
            words.format_count(waits.files, "file"),
            f"{size}{seen}{filters}",
        ),
        Fact("Files read before", f"{present} still there", seen),
    ]


BEFORE: Final = {Outdating.RERUN: ", before the rerun", Outdating.BATCH: ", before the last batch"}


def _table_fact(recovery: Recovery | None, last: Recovery | None, now: datetime) -> Fact:
    """The newest count that somebody made, with its time: counting now would ask Spark."""
    gathered, proof = _gathered_facts(recovery), last.proof if last else None
    if proof is not None and proof.table_rows is None:
        proof = None
    if recovery and gathered and gathered.table_rows is not None and not _is_newer(proof, gathered):
        outdating = outdating_of(recovery)
        return Fact(
            "Table",
            words.format_count(gathered.table_rows, "row"),
            f"counted {words.format_clock(gathered.at, now)}{BEFORE[outdating] if outdating else ''}",
            f"counted-before-{outdating.value}" if outdating else "",
        )
    if last is None or proof is None:
        return Fact("Table", "not counted", "a recovery counts its rows")
    at = proof.at
    return Fact(
        "Table",
        words.format_count(proof.table_rows, "row"),
        f"{words.format_clock(at, now)}, {words.format_ago(at, now)}, by {last.label}",
    )


def _is_newer(proof: Measured | None, gathered: GatheredFacts) -> bool:
    """Whether a proof measured after facts were gathered."""
    measured = words.parse_moment(proof.at) if proof else None
    counted = words.parse_moment(gathered.at)
    return measured is not None and (counted is None or measured > counted)


@dataclass(frozen=True)
class Cause:
    title: str
    text: str
    root: bool
    tags: tuple[str, ...]


def list_causes(chain: Sequence[ChainedError]) -> list[Cause]:
    """The chain from the outside in; the last one is the root."""
    causes = []
    for number, error in enumerate(chain):
        root = number == len(chain) - 1
        name = words.last_part(error.class_name) or "Error"
        causes.append(Cause(name, first_sentence([error]), root, ("Innermost",) if root else ()))
    return causes


def draw_graph(
    flow: Flow,
    flows: Iterable[Flow],
    outside: Iterable[tuple[Node, Flow]] = (),
    doubts: Mapping[int, Doubt] | None = None,
) -> dag.GraphDrawing:
    """Sources → flow → table → views of this flow's pipeline, each as its own row of the inventory says.
    `outside`: what other pipelines have below (`across.flows_below`). `doubts`: of flows that are ok, by flow."""
    own, others, doubted = list(flows), list(outside), doubts or {}
    every = [*own, *(f for _, f in others)]
    tables = {f.dataset for f in every}
    reads = {f.pk: _input_names(f) for f in own} | {
        f.pk: [i for i in n.inputs if i in tables] for n, f in others
    }
    edges: list[tuple[str, str]] = []
    for row in every:
        key, table = _node_keys(row)
        if key != table:
            edges.append((key, table))
        edges += [(i if i in tables else f"source {i}", key) for i in reads[row.pk]]
    says = ". ".join(f"{f.short}: {flow_badge(f, doubted.get(f.pk)).word}" for f in every) + "."
    items = _graph_items(every, reads, flow.pipeline_id, doubted)
    return dag.draw_graph(flow.pipeline.name, says, items, edges)


def _node_keys(flow: Flow) -> tuple[str, str]:
    """Key of a flow's own node and of its table; a view is both at once."""
    return (
        (f"flow {flow.pipeline_id} {flow.name}", flow.dataset)
        if flow.streaming
        else (flow.dataset, flow.dataset)
    )


def _input_names(flow: Flow) -> list[str]:
    """Names of what it reads: datasets, else the sources of its last batch."""
    named = [str(i.get("name", i)) if isinstance(i, dict) else str(i) for i in flow.inputs or []]
    if named or not flow.streaming:
        return named
    sources = (flow.last_progress or {}).get("sources") or []
    return [str(s.get("description")) for s in sources if isinstance(s, dict) and s.get("description")]


KINDS: Final = {"failed": "bad", "empty": "bad", "stale": "stale", "ok": "ok"}
"""How a node is drawn, by the state of its flow: what is empty is as bad as what has failed."""

RANK: Final = ("bad", "stale", "", "ok")
"""Of several flows that write one table, the worst shows."""


def _graph_items(
    every: list[Flow], reads: Mapping[int, list[str]], pipeline_id: int, doubts: Mapping[int, Doubt]
) -> list[dag.Item]:
    tables = {f.dataset for f in every}
    items: dict[str, dag.Item] = {}
    for row in every:
        key, table = _node_keys(row)
        for name in reads[row.pk]:
            if name not in tables:
                items.setdefault(
                    f"source {name}", dag.Item(f"source {name}", dag.source_name(name), "source")
                )
        name = row.short if row.streaming else f"{dag.shorten_label(table)} (view)"
        href = reverse("flow", args=[row.pk])
        doubt = doubts.get(row.pk)
        kind = "stale" if doubt else KINDS.get(row.state, "")
        items[key] = dag.Item(key, name, _node_text(row, pipeline_id, doubt), kind, href)
        if key != table:
            items[table] = _worse_item(items.get(table), _table_item(row, doubt))
    return list(items.values())


def _node_text(flow: Flow, pipeline_id: int, doubt: Doubt | None) -> str:
    """`stale since 02:40 UTC, batch 3`, with the pipeline's name where it is another one."""
    word = flow_badge(flow, doubt).word.lower()
    late = since_of(flow) if flow.state != "failed" else None
    since = f" since {late:%H:%M} UTC" if late else ""
    batch = "" if flow.last_batch is None else f", batch {flow.last_batch}"
    other = "" if flow.pipeline_id == pipeline_id else f"{flow.pipeline.name}: "
    return f"{other}{word}{since}{batch}"


def _table_item(flow: Flow, doubt: Doubt | None) -> dag.Item:
    """The table of a flow has no row of its own: it is as its flow is, and what that is says the flow's node."""
    kind = "stale" if doubt else KINDS.get(flow.state, "")
    usual = doubt.word if doubt else written_name(flow)
    word = {"failed": "its flow fails", "empty": "empty", "stale": "out of date"}.get(flow.state, usual)
    return dag.Item(
        flow.dataset,
        dag.shorten_label(flow.dataset) or "not known",
        word,
        "stale" if flow.state == "failed" else kind,
    )


def _worse_item(item: dag.Item | None, other: dag.Item) -> dag.Item:
    return other if item is None or RANK.index(other.kind) < RANK.index(item.kind) else item
