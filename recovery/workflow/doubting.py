"""What contradicts a flow whose last update ended well, or that runs: pages, lists, metrics and `flows` show no green
light over it.

What recoveries say of its table is kept with the flow (`keep_table_doubts`), so that it can be counted without their
proofs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.forecast import DatasetKind, DownstreamEffect, DownstreamReason
from recovery.contracts.measured import Measured
from recovery.contracts.names import DoubtCode
from recovery.contracts.updates import LostRows
from recovery.diagnosis.judgement import title_by_error
from recovery.models import Flow, FlowInput, Recovery, Step
from recovery.models.listed import hold_pipelines
from recovery.notify.actions import announce_event
from recovery.pipelines import retention
from recovery.pipelines.losses import WELL_AGAIN, read_table_memory
from recovery.pipelines.retention import RetentionState
from recovery.verification.leftover import asks_earlier, say_counted, settles, sum_leftover


@dataclass(frozen=True)
class Doubt:
    """Why a flow that is *ok*, or runs, is not plainly well. `word`: after *OK* or *Running* in a badge; `title`,
    `text`: whole sentences."""

    code: DoubtCode
    word: str
    title: str
    text: str
    #: the recovery whose proof, or lack of one, shows it
    recovery_id: int | None = None
    #: what its table lacks or has too often: `9 rows lost`; "" where that is not what it says
    cost: str = ""
    #: of the flow
    state: str = "ok"

    @property
    def says(self) -> str:
        """Everything, in sentences."""
        return f"{self.title} {self.text}".strip()


@dataclass(frozen=True)
class ProvingRecovery:
    """A recovery that proved the flow's table, or did not."""

    pk: int
    state: str
    ended_at: datetime | None
    proof: Measured | None

    @property
    def label(self) -> str:
        return f"R-{self.pk}"


PROVING: Final = ("succeeded", "unproven", "failed", "needs_attention")
"""States of recoveries by which the flow's table is proven, or is not."""


def _is_proving() -> Q:
    """Those, and open ones whose proof did not hold: while a further plan is made and runs, or the proof is measured
    again, nothing has shown that the table is right."""
    measured = Step.objects.filter(
        recovery=OuterRef("pk"), kind="verify", state="done", plan__isnull=False, plan__voided_at=None
    )
    return Q(state__in=PROVING) | (Q(active=True) & Q(Exists(measured)))


def doubts_of(flow_ids: Iterable[int], now: datetime) -> dict[int, Doubt]:
    """By flow, for those of these flows that are in doubt. The number of queries does not grow with the flows, except
    for flows whose newest proof leaves something to earlier ones."""
    flows = retention.with_sources(Flow.objects.filter(pk__in=flow_ids, state__in=retention.GOING_ON))
    known = list(flows.select_related("pipeline__workspace").only(*_READ))
    recoveries = _read_recoveries(known)
    doubts = {}
    for flow in known:
        unread = retention.of(flow, flow.sources.all(), now)
        standing = unread.standing if unread else None
        if doubt := find_doubt(flow, recoveries.get(flow.pk, ()), standing):
            doubts[flow.pk] = doubt
    return doubts


def table_doubt_of(flow: Flow) -> Doubt | None:
    """What is known against the table of a flow, whatever its state: a list shows it only where the flow looks well."""
    doubt = find_table_doubt(flow, _read_recoveries([flow]).get(flow.pk, ()))
    return replace(doubt, state=flow.state) if doubt is not None and doubt.code.needs_attention else None


_READ: Final = (
    "state", "streaming", "code_problem", "code_digest", "rewritten_at", "fed_again_at", "fed_again_by",
    "sink_memory", "condition", "failing_since", "failed_update",
    "pipeline__name",
    *(f"pipeline__workspace__{name}" for name in ("name", "kind", "polled_at", "poll_error")),
)  # fmt: skip


@dataclass(frozen=True)
class _Row:
    """A recovery without what it measured."""

    pk: int
    state: str
    ended_at: datetime | None


def _read_recoveries(flows: Iterable[Flow]) -> Mapping[int, Sequence[ProvingRecovery]]:
    """By flow, the newest first: as many as `find_doubt` needs. Proofs are large and are read for these alone."""
    ahead = _list_rows({flow.pk: flow.rewritten_at for flow in flows})
    read: dict[int, list[ProvingRecovery]] = defaultdict(list)
    while ahead:
        keys = [rows[0].pk for rows in ahead.values()]
        measured = dict(Recovery.objects.filter(pk__in=keys).values_list("pk", "measured"))
        for flow_id, (row, *older) in list(ahead.items()):
            stored = measured.get(row.pk)
            proof = codec.read(Measured, stored) if stored else None
            read[flow_id].append(ProvingRecovery(row.pk, row.state, row.ended_at, proof))
            is_last = row.state != "succeeded" or (proof is not None and not asks_earlier(proof))
            if is_last or not older:
                del ahead[flow_id]
            else:
                ahead[flow_id] = older
    return read


def _list_rows(rewritten: Mapping[int, datetime | None]) -> dict[int, list[_Row]]:
    """By flow, its recoveries since the table was written from scratch, the newest first."""
    rows: dict[int, list[_Row]] = defaultdict(list)
    proving = Recovery.objects.filter(_is_proving(), flow__in=rewritten.keys()).order_by("-pk")
    for flow_id, pk, state, ended_at in proving.values_list("flow", "pk", "state", "ended_at"):
        since = rewritten[flow_id]
        is_before = since is not None and ended_at is not None and since > ended_at
        if not is_before:
            rows[flow_id].append(_Row(pk, state, ended_at))
    return rows


def find_doubt(
    flow: Flow, recoveries: Sequence[ProvingRecovery], unread: RetentionState | None
) -> Doubt | None:
    """The gravest one; None if the flow's state says enough, or nothing contradicts it.

    `recoveries`: of the flow, the newest first, since its table was written from scratch. `unread`: how long its unread
    input can be read.
    """
    if flow.state not in retention.GOING_ON:
        return None
    of_table = find_table_doubt(flow, recoveries)
    code = _gravest(unread, of_table.code if of_table else None, is_polled=not _unasked(flow))
    if code is DoubtCode.INPUT_GONE:
        doubt: Doubt | None = _input_gone(_say_state(flow))
    elif code is DoubtCode.PASSED_OVER:
        doubt = _passed_over(_say_state(flow))
    else:
        doubt = _not_asked(flow) if code is DoubtCode.NOT_ASKED else of_table
    return replace(doubt, state=flow.state) if doubt else None


def _say_state(flow: Flow) -> str:
    """How the title of a doubt begins: what looks well."""
    if flow.state == "running":
        return "This flow runs"
    if flow.state == "ok":
        return f"This flow's last {flow.pipeline.workspace.run_noun} ended well"
    return f"This flow is {flow.state}"


def _gravest(
    unread: RetentionState | None, of_table: DoubtCode | None, *, is_polled: bool
) -> DoubtCode | None:
    gravest_first = (
        DoubtCode.INPUT_GONE if unread is RetentionState.GONE else None,
        of_table,
        DoubtCode.PASSED_OVER if unread is RetentionState.PASSED else None,
        None if is_polled else DoubtCode.NOT_ASKED,
    )
    return next((code for code in gravest_first if code is not None), None)


def find_table_doubt(flow: Flow, recoveries: Sequence[ProvingRecovery]) -> Doubt | None:
    """What its recoveries say of its table, whatever the flow does now; `recoveries` as `find_doubt` takes them."""
    begin = _say_state(flow)
    if lost := _rows_lost(flow, begin):
        return lost
    own = _not_proven(recoveries, begin) or _leftover(recoveries, begin)
    if own is None or own.code is DoubtCode.AS_ACCEPTED:
        return _fed_again(flow, recoveries, begin) or _read_again(flow, recoveries, begin) or own
    return own


def _rows_lost(flow: Flow, begin: str) -> Doubt | None:
    """What its updates did to its table: of a flow that runs nothing else shows it."""
    loss = read_table_memory(flow).open_loss
    if loss is None:
        return None
    text = title_by_error((), loss.condition)
    return Doubt(
        DoubtCode.ROWS_LOST, "rows may be lost", f"{begin}, but rows may be missing from its table.", text
    )


def _fed_again(flow: Flow, recoveries: Sequence[ProvingRecovery], begin: str) -> Doubt | None:
    """Rows that a recovery above brought a second time, or may have, stay in doubt until the table is written from
    scratch, or a recovery of its own compares it whole."""
    at = flow.fed_again_at
    if at is None or _is_settled_since(at, flow, recoveries):
        return None
    return Doubt(
        DoubtCode.FED_AGAIN,
        "rows may be twice",
        f"{begin}, but R-{flow.fed_again_by} wrote rows of a table that it reads again.",
        "They may be in this table twice. Compare it with what it reads, or refresh it in full.",
        flow.fed_again_by,
    )


def _read_again(flow: Flow, recoveries: Sequence[ProvingRecovery], begin: str) -> Doubt | None:
    """The same of rows that its own query read again, as no plan asked it to."""
    read_again = read_table_memory(flow).read_again
    if read_again is None:
        return None
    at = datetime.fromisoformat(read_again.since) if read_again.since else None
    if at is not None and _is_settled_since(at, flow, recoveries):
        return None
    on = f" on {at:%d %b %Y, %H:%M} UTC" if at else ""
    what = (
        "its query had another id, as after a new checkpoint"
        if read_again.is_straight
        else "its query began again from the start"
    )
    return Doubt(
        DoubtCode.READ_AGAIN,
        "rows may be twice",
        f"{begin}, but{on} {what}, and its table is not known to have been emptied.",
        "Rows may be there twice, or missing. Compare the table with its input, or write it from scratch.",
    )


def _is_settled_since(at: datetime, flow: Flow, recoveries: Sequence[ProvingRecovery]) -> bool:
    """Whether the table was written from scratch later, or a later recovery of its own compared it whole."""
    if flow.rewritten_at is not None and flow.rewritten_at > at:
        return True
    return any(r.ended_at and r.ended_at > at and r.proof and settles(r.proof) for r in recoveries)


def _input_gone(begin: str) -> Doubt:
    return Doubt(
        DoubtCode.INPUT_GONE,
        "input gone",
        f"{begin}, but input that it had not read is gone.",
        "Rows of that input are in no table. See Unread input for the source and how much is gone.",
    )


def _not_proven(recoveries: Sequence[ProvingRecovery], begin: str) -> Doubt | None:
    """A recovery without proof leaves the table in doubt until one compares it whole, or it is written from scratch.
    One that proved its own new rows has not looked at the rows of before."""
    newest = next((r for r in recoveries if r.state != "succeeded" or (r.proof and settles(r.proof))), None)
    if newest is None or newest.state == "succeeded":
        return None
    criteria = newest.proof.criteria if newest.proof else ()
    wrong = sum(criterion.ok is False for criterion in criteria)
    unknown = sum(criterion.ok is None for criterion in criteria)
    number = "1 criterion" if len(criteria) == 1 else f"{len(criteria)} criteria"
    if criteria:
        text = f"Of {number} {wrong} did not hold and {unknown} could not be measured."
    else:
        text = "Nothing was measured." if newest.state in PROVING else "Its last proof did not hold."
    cost = say_counted(newest.proof) if newest.proof else ""
    left = (
        f"It counted {cost}." if cost else "A good end does not show whether rows are missing or there twice."
    )
    return Doubt(
        DoubtCode.NOT_PROVEN,
        f"not proven, {cost}" if cost else "not proven",
        f"{begin}, but {newest.label} has not proven its table.",
        f"{text} {left}",
        newest.pk,
        cost,
    )


def _leftover(recoveries: Sequence[ProvingRecovery], begin: str) -> Doubt | None:
    """Rows that the proofs measured as lost or doubled stay so until a proof shows that they no longer are."""
    recoveries = [recovery for recovery in recoveries if recovery.state == "succeeded"]
    proofs = [recovery.proof or Measured() for recovery in recoveries]
    rows = sum_leftover(proofs)
    if not rows.cost:
        return None
    source = next(r for r, p in zip(recoveries, proofs, strict=True) if sum_leftover([p]).cost)
    if rows.differs:
        return Doubt(
            DoubtCode.TABLE_DIFFERS,
            "table differs",
            f"{begin}, but its table is not as its input: {rows.cost}.",
            f"{source.label} measured this.",
            source.pk,
            rows.cost,
        )
    return Doubt(
        DoubtCode.AS_ACCEPTED,
        rows.cost,
        f"{begin}, but its table is not as its input: {rows.cost}, as accepted.",
        f"{source.label} measured this. It stays so until the table is written from scratch or a later recovery proves "
        "otherwise.",
        source.pk,
        rows.cost,
    )


def _passed_over(begin: str) -> Doubt:
    return Doubt(
        DoubtCode.PASSED_OVER,
        "files passed over",
        f"{begin}, but it passed over files.",
        "They are too old for its source's settings, so their rows are in no table. See Unread input.",
    )


def _unasked(flow: Flow) -> bool:
    """The row is as old as the last poll that succeeded."""
    workspace = flow.pipeline.workspace
    return bool(workspace.poll_error) or workspace.polled_at is None


def _not_asked(flow: Flow) -> Doubt:
    workspace = flow.pipeline.workspace
    at = workspace.polled_at
    well = "It ran" if flow.state == "running" else f"Its last {workspace.run_noun} ended well,"
    last = f"{well} as of {at:%d %b %Y, %H:%M:%S} UTC. " if at else ""
    return Doubt(
        DoubtCode.NOT_ASKED,
        "not polled since",
        "The state of this flow now is not known.",
        f"{last}Workspace {workspace.name} did not answer the last poll. {workspace.poll_error}".strip(),
    )


def keep_table_doubts(flow_ids: Iterable[int], *, tells: bool = True) -> None:
    """Keep with these flows what their recoveries say of their tables, and tell people once when a table turns out to
    differ (`tells`). In the transaction that changed a recovery, or when a table was written from scratch."""
    with transaction.atomic():
        rows = Flow.objects.filter(pk__in=list(flow_ids)).order_by("pk")
        # first: whoever changes the other of both meanwhile is read here, or keeps it again
        hold_pipelines(rows.values_list("pipeline_id", flat=True))
        flows = list(rows.select_related("pipeline__workspace"))
        recoveries = _read_recoveries(flows)
        for flow in flows:
            _keep_table_doubt(flow, find_table_doubt(flow, recoveries.get(flow.pk, ())), tells=tells)


def keep_doubts_of(recovery_id: int) -> None:
    """The same for the flow of a recovery that has moved, and for tables that read its table as a stream."""
    with transaction.atomic():
        recovery = Recovery.objects.select_related("flow__pipeline").get(pk=recovery_id)
        fed, begun = _list_fed_again(recovery), _find_rerun_begin(recovery)
        no_longer = Flow.objects.filter(fed_again_by=recovery_id).exclude(pk__in=fed)
        undone = list(no_longer.values_list("pk", flat=True))
        ids = [recovery.flow_id, *fed, *undone]
        hold_pipelines(Flow.objects.filter(pk__in=ids).values_list("pipeline_id", flat=True))
        earlier = Q(fed_again_at=None) | Q(fed_again_at__lt=begun)
        Flow.objects.filter(earlier, pk__in=fed).update(fed_again_at=begun, fed_again_by=recovery_id)
        if undone:
            _fall_back(undone, recovery.flow.pipeline.workspace_id)
        _settle_loss(recovery)
        keep_table_doubts(ids)


def _settle_loss(recovery: Recovery) -> None:
    """A proof that counted the whole table says what it lacks: what its updates seemed to have lost is in that number.
    The next poll judges the flow by it; with a rollback the loss is open again."""
    flow = Flow.objects.get(pk=recovery.flow_id)
    loss = read_table_memory(flow).loss
    if loss is None or loss.condition is LostRows.SHARED:
        return
    proof = codec.read(Measured, recovery.measured) if recovery.measured else Measured()
    if recovery.state == "succeeded" and settles(proof):
        settled_by: int | None = recovery.pk
    elif loss.settled_by == recovery.pk:
        settled_by = None
    else:
        return
    memory = codec.change(read_table_memory(flow), loss=codec.change(loss, settled_by=settled_by))
    Flow.objects.filter(pk=flow.pk).update(sink_memory=codec.to_json(memory))
    if settled_by is not None and (flow.state, flow.condition) == ("failed", loss.condition):
        Flow.objects.filter(pk=flow.pk).update(**WELL_AGAIN)


def _find_rerun_begin(recovery: Recovery) -> datetime:
    """When its newest update began."""
    begun = Step.objects.filter(recovery=recovery, kind="rerun").aggregate(at=Max("started_at"))["at"]
    return begun or timezone.now()


def _fall_back(flow_ids: Iterable[int], workspace_id: int) -> None:
    """Of flows below whose last recovery above was undone: the one before it that brought rows again, if any."""
    ran = Recovery.objects.filter(
        flow__pipeline__workspace=workspace_id, state__in=PROVING, steps__kind="rerun"
    )
    left = set(flow_ids)
    Flow.objects.filter(pk__in=left).update(fed_again_at=None, fed_again_by=None)
    for recovery in ran.distinct().select_related("flow__pipeline").order_by("-pk"):
        if fed := left & set(_list_fed_again(recovery)):
            at = _find_rerun_begin(recovery)
            Flow.objects.filter(pk__in=fed).update(fed_again_at=at, fed_again_by=recovery.pk)
            left -= fed
        if not left:
            return


REPEATING: Final = (
    DownstreamReason.REPEATS,
    DownstreamReason.TABLE_ANEW,
    DownstreamReason.TABLE_PUT_BACK,
    DownstreamReason.ROWS_UNKNOWN,
)
"""Why a streaming table may get rows a second time."""


def _list_fed_again(recovery: Recovery) -> list[int]:
    """Flows that write a streaming table below, into which the updates of this recovery brought rows a second time, or
    may have. None where nothing ran, or all was undone."""
    if recovery.state == "rolled_back":
        return []
    ran = Step.objects.filter(recovery=recovery, kind="rerun").exclude(state__in=("pending", "skipped"))
    plans = [step.plan for step in ran.select_related("plan") if step.plan is not None]
    below = [dataset for plan in plans for dataset in plan.contents.forecast.downstream]
    names = [
        dataset.dataset
        for dataset in below
        if dataset.kind is DatasetKind.TABLE
        and (dataset.effect is DownstreamEffect.DOUBLED or dataset.reason in REPEATING)
    ]
    workspace = recovery.flow.pipeline.workspace_id
    flows = Flow.objects.filter(pipeline__workspace=workspace, pipeline__gone=False, dataset__in=names)
    return list(flows.values_list("pk", flat=True))


def keep_all_table_doubts() -> None:
    """The same for every flow that a recovery has proven, or not; after an upgrade, which is no news to people."""
    proving = Recovery.objects.filter(_is_proving()).values("flow")
    keep_table_doubts(Flow.objects.filter(pk__in=proving).values_list("pk", flat=True), tells=False)


def _keep_table_doubt(flow: Flow, doubt: Doubt | None, *, tells: bool) -> None:
    """A proof that could not be measured keeps what an earlier one has found, of which people know."""
    code, since = doubt.code if doubt else None, flow.differs_since
    if code is DoubtCode.TABLE_DIFFERS:
        since = since or timezone.now()
    elif code not in (DoubtCode.NOT_PROVEN, DoubtCode.ROWS_LOST):
        since = None
    if (flow.table_doubt, flow.differs_since) == (code or "", since):
        return
    Flow.objects.filter(pk=flow.pk).update(table_doubt=code or "", differs_since=since)
    is_new = doubt is not None and flow.table_doubt != code and flow.state in retention.GOING_ON
    if tells and doubt and is_new and doubt.code.is_of_updates:
        memory = read_table_memory(flow)
        at = memory.read_again if code is DoubtCode.READ_AGAIN else memory.open_loss
        name = f"{flow.pk}:{code}:{at.update if at else ''}"
        announce_event(event="flow.in_doubt", flow=flow, facts={"doubt": doubt.word}, dedupe=name)
    if tells and doubt and since and flow.differs_since is None:
        facts = {"rows": doubt.cost, "shown_by": f"R-{doubt.recovery_id}"}
        announce_event(
            event="flow.table_differs", flow=flow, facts=facts, dedupe=f"{flow.pk}:{since.isoformat()}"
        )


def count_doubts(now: datetime) -> Counter[DoubtCode]:
    """How many flows of pipelines that exist are *ok* or run, and are in doubt, by the gravest of each."""
    sources: dict[int, list[FlowInput]] = defaultdict(list)
    for source in FlowInput.objects.filter(
        flow__pipeline__gone=False, flow__state__in=retention.GOING_ON
    ).defer("reader", "table"):
        sources[source.flow_id].append(source)
    counted: Counter[DoubtCode] = Counter()
    flows = Flow.objects.filter(pipeline__gone=False, state__in=retention.GOING_ON).select_related(
        "pipeline__workspace"
    )
    for flow in flows.only(*_READ, "table_doubt"):
        unread = retention.of(flow, sources[flow.pk], now)
        of_table = DoubtCode(flow.table_doubt) if flow.table_doubt else None
        code = _gravest(unread.standing if unread else None, of_table, is_polled=not _unasked(flow))
        counted.update([code] if code else [])
    return counted
