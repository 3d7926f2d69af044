"""What contradicts a flow whose last update ended well: pages, the list and `flows` show no green light over it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from recovery.contracts import codec
from recovery.contracts.measured import Measured
from recovery.models import Flow, Recovery
from recovery.pipelines import retention
from recovery.pipelines.retention import RetentionState
from recovery.verification.leftover import settles, sum_leftover


@dataclass(frozen=True)
class Doubt:
    """Why a flow that is *ok* is not plainly so. `word`: after *OK* in a badge; `title`, `text`: whole sentences."""

    code: str
    word: str
    title: str
    text: str
    #: the recovery whose proof, or lack of one, shows it
    recovery_id: int | None = None

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


def doubts_of(flow_ids: Iterable[int], now: datetime) -> dict[int, Doubt]:
    """By flow, for those of these flows that are in doubt. The number of queries does not grow with the flows, except
    for flows whose newest proof did not count their whole table."""
    flows = retention.with_sources(Flow.objects.filter(pk__in=flow_ids, state="ok"))
    known = list(flows.select_related("pipeline__workspace").only(*_READ))
    recoveries = _read_recoveries(known)
    doubts = {}
    for flow in known:
        unread = retention.of(flow, flow.sources.all(), now)
        standing = unread.standing if unread else None
        if doubt := find_doubt(flow, recoveries.get(flow.pk, ()), standing):
            doubts[flow.pk] = doubt
    return doubts


_READ: Final = (
    "state", "streaming", "code_problem", "code_digest", "rewritten_at", "pipeline__name",
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
            settled = row.state != "succeeded" or (proof is not None and settles(proof))
            if settled or not older:
                del ahead[flow_id]
            else:
                ahead[flow_id] = older
    return read


def _list_rows(rewritten: Mapping[int, datetime | None]) -> dict[int, list[_Row]]:
    """By flow, its recoveries since the table was written from scratch, the newest first."""
    rows: dict[int, list[_Row]] = defaultdict(list)
    proving = Recovery.objects.filter(flow__in=rewritten.keys(), state__in=PROVING).order_by("-pk")
    for flow_id, pk, state, ended_at in proving.values_list("flow", "pk", "state", "ended_at"):
        since = rewritten[flow_id]
        is_before = since is not None and ended_at is not None and since > ended_at
        if not is_before:
            rows[flow_id].append(_Row(pk, state, ended_at))
    return rows


def find_doubt(
    flow: Flow, recoveries: Sequence[ProvingRecovery], unread: RetentionState | None
) -> Doubt | None:
    """The gravest one; None if the flow is not *ok*, which says enough, or nothing contradicts it.

    `recoveries`: of the flow, the newest first, since its table was written from scratch. `unread`: how long its unread
    input can be read.
    """
    if flow.state != "ok":
        return None
    run = flow.pipeline.workspace.run_noun
    if unread is RetentionState.GONE:
        return Doubt(
            "input-gone",
            "input gone",
            f"This flow's last {run} ended well, but input that it had not read is gone.",
            "Rows of that input are in no table. See Unread input for the source and how much is gone.",
        )
    of_table = _not_proven(recoveries, run) or _leftover(recoveries, run)
    return of_table or _passed_over(unread, run) or _not_asked(flow)


def _not_proven(recoveries: Sequence[ProvingRecovery], run: str) -> Doubt | None:
    """A recovery without proof leaves the table in doubt until one compares it whole, or it is written from scratch.
    One that proved its own new rows has not looked at the rows of before."""
    newest = next((recovery for recovery in recoveries if recovery.state != "succeeded"), None)
    if newest is None:
        return None
    criteria = newest.proof.criteria if newest.proof else ()
    wrong = sum(criterion.ok is False for criterion in criteria)
    unknown = sum(criterion.ok is None for criterion in criteria)
    number = "1 criterion" if len(criteria) == 1 else f"{len(criteria)} criteria"
    text = (
        f"Of {number} {wrong} did not hold and {unknown} could not be measured."
        if criteria
        else "Nothing was measured."
    )
    return Doubt(
        "not-proven",
        "not proven",
        f"This flow's last {run} ended well, but {newest.label} has not proven its table.",
        f"{text} A good end does not show whether rows are missing or there twice.",
        newest.pk,
    )


def _leftover(recoveries: Sequence[ProvingRecovery], run: str) -> Doubt | None:
    """Rows that the proofs measured as lost or doubled stay so until a proof shows that they no longer are."""
    recoveries = [recovery for recovery in recoveries if recovery.state == "succeeded"]
    proofs = [recovery.proof or Measured() for recovery in recoveries]
    rows = sum_leftover(proofs)
    if not rows.cost:
        return None
    source = next(r for r, p in zip(recoveries, proofs, strict=True) if sum_leftover([p]).cost)
    if rows.differs:
        return Doubt(
            "table-differs",
            "table differs",
            f"This flow's last {run} ended well, but its table is not as its input: {rows.cost}.",
            f"{source.label} measured this.",
            source.pk,
        )
    return Doubt(
        "as-accepted",
        rows.cost,
        f"This flow's last {run} ended well, but its table is not as its input: {rows.cost}, as accepted.",
        f"{source.label} measured this. It stays so until the table is written from scratch or a later recovery proves "
        "otherwise.",
        source.pk,
    )


def _passed_over(unread: RetentionState | None, run: str) -> Doubt | None:
    if unread is not RetentionState.PASSED:
        return None
    return Doubt(
        "passed-over",
        "files passed over",
        f"This flow's last {run} ended well, but it passed over files.",
        "They are too old for its source's settings, so their rows are in no table. See Unread input.",
    )


def _not_asked(flow: Flow) -> Doubt | None:
    """The row is as old as the last poll that succeeded."""
    workspace = flow.pipeline.workspace
    at = workspace.polled_at
    if not workspace.poll_error and at:
        return None
    last = f"Its last {workspace.run_noun} ended well, as of {at:%d %b %Y, %H:%M:%S} UTC. " if at else ""
    return Doubt(
        "not-asked",
        "not polled since",
        "The state of this flow now is not known.",
        f"{last}Workspace {workspace.name} did not answer the last poll. {workspace.poll_error}".strip(),
    )
