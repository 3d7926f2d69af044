"""A checkpoint report as the checkpoint tab shows it: judgement, findings, batches, state against code. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.presenters import status, words
from recovery.checkpoints import batch_descriptions
from recovery.checkpoints.report import Outcome
from recovery.checkpoints.version_history import VersionUse
from recovery.diagnosis.operators import operator_word
from recovery.diagnosis.verdict import CheckpointState, FlowVerdict, StatefulStep, StepFit
from recovery.sources import labels

KINDS = {"blocker": "blocker", "warning": "warning", "info": "info"}


@dataclass(frozen=True)
class FindingRow:
    badge: status.Badge
    kind: str
    says: str
    do: str
    code: str
    file: str
    spark: str
    next_run: str = ""
    outcome: str = ""


def finding_rows(raw: Sequence[Mapping[str, Any]]) -> list[FindingRow]:
    """Blockers first."""
    rank = list(KINDS)
    ordered = sorted(raw, key=lambda f: rank.index(f["severity"]) if f["severity"] in rank else 0)
    return [
        FindingRow(
            status.state_badge(status.SEVERITY, str(f["severity"])),
            KINDS.get(str(f["severity"]), "info"),
            str(f["says"]),
            str(f.get("do") or ""),
            str(f.get("code") or ""),
            str(f.get("file") or ""),
            str(f.get("spark") or ""),
            *_next_run(f),
        )
        for f in ordered
    ]


def _next_run(finding: Mapping[str, Any]) -> tuple[str, str]:
    """What the next run comes to because of this finding, in words and as its code; nothing where it goes on: that
    hangs on all findings together."""
    outcome = str(finding.get("outcome") or "")
    return ("", "") if outcome == Outcome.GOES_ON else (batch_descriptions.next_run(outcome), outcome)


def judge_fit(verdict: FlowVerdict) -> tuple[status.Badge, str]:
    """Intact, not fitting, or the first blocker; `none` where there is no checkpoint."""
    if verdict.checkpoint is CheckpointState.NONE:
        return status.Badge("unknown", "None"), "there is no checkpoint at this place"
    if verdict.checkpoint is CheckpointState.SOUND and not verdict.fits_code:
        return status.Badge(
            "failed", "Does not fit"
        ), "intact, but its state does not fit the code that ran last"
    if verdict.blockers:
        return status.Badge("failed", "Damaged"), verdict.blockers[0].says
    return status.Badge("ok", "Intact"), "every file that a restart needs is present and readable"


def count_findings(rows: Sequence[FindingRow]) -> str:
    """`1 blocker, 0 warnings, 2 notes`."""
    number = {k: sum(r.kind == k for r in rows) for k in KINDS}
    return ", ".join(
        words.format_count(number[k], noun)
        for k, noun in (("blocker", "blocker"), ("warning", "warning"), ("info", "note"))
    )


@dataclass(frozen=True)
class BatchRow:
    batch: int
    at: int | None
    committed: bool
    restart: bool
    offsets: list[str]
    files: int | None


def batch_rows(report: Mapping[str, Any]) -> list[BatchRow]:
    """Newest first; the last committed one is where a restart begins."""
    last = report.get("last_committed")
    return [
        BatchRow(
            batch=int(b["batch"]),
            at=b.get("timestamp_ms"),
            committed=bool(b.get("committed")),
            restart=b["batch"] == last,
            offsets=[str(o) for o in b.get("offsets") or []],
            files=None,
        )
        for b in report.get("batches") or []
    ]


@dataclass(frozen=True)
class OperatorRow:
    """`holds`: how much it keeps and where; `back`: the batches whose state is still whole."""

    number: int | str
    held: str
    detail: str
    in_code: str
    badge: status.Badge
    means: str
    holds: str = ""
    back: str = ""


def operator_rows(report: Mapping[str, Any], verdict: FlowVerdict) -> list[OperatorRow]:
    """State operators of the checkpoint beside those of the code, as the verdict has them."""
    held = sorted(report.get("state_operators") or [], key=lambda o: int(o["operator_id"]))
    return [_operator_row(step, held[step.place] if step.place < len(held) else {}) for step in verdict.steps]


def _operator_row(step: StatefulStep, operator: Mapping[str, Any]) -> OperatorRow:
    badge, means = step_words(step)
    keys = ", ".join(operator.get("key_columns") or [])
    partitions = words.format_count(operator.get("partitions"), "partition") if operator else ""
    return OperatorRow(
        operator.get("operator_id", step.place),
        step.held or "none",
        f"{partitions}, keys {keys}" if keys else partitions,
        "not known" if step.fit is StepFit.UNKNOWN else step.in_code or "none",
        badge,
        means,
        _held_text(operator),
        words.format_ranges(operator.get("back") or []),
    )


def step_words(step: StatefulStep) -> tuple[status.Badge, str]:
    """Whether a stateful step fits, and what that means."""
    if step.fit is StepFit.UNKNOWN:
        return status.Badge("unknown", "Not known"), "The stateful steps of the code are not known."
    if step.fit is StepFit.SAME:
        return status.Badge("ok", "Compatible"), "The code has the same kind of step here."
    means = (
        f"The state of {operator_word(step.held)} cannot be kept."
        if step.held
        else "The checkpoint holds no state for it."
    )
    return status.Badge("failed", "Not compatible"), means


def _held_text(operator: Mapping[str, Any]) -> str:
    """`1,204 keys, 2.4 MiB, HDFSBackedStateStoreProvider`: what of it is known."""
    keys = words.format_count(operator["rows"], "key") if operator.get("rows") is not None else ""
    size = words.format_size(operator["size_bytes"]) if operator.get("size_bytes") is not None else ""
    return ", ".join(filter(None, (keys, size, str(operator.get("provider") or ""))))


@dataclass(frozen=True)
class SourceRow:
    """`key`: the source's name, else its index; `log`: as its log's folder is called; `label`: where it is."""

    index: int
    key: str
    log: str
    kind: str
    label: str
    offset: str
    read: int
    planned: int
    last: str


def source_rows(report: Mapping[str, Any]) -> list[SourceRow]:
    return [
        SourceRow(
            int(source["index"]),
            str(source.get("name") or source["index"]),
            str(source.get("log") or source.get("name") or source["index"]),
            str(source.get("kind") or "unknown"),
            labels.label_position(str(source.get("kind") or "unknown"), source.get("offset_json")),
            str(source.get("offset_json") or "none"),
            int(source.get("committed_files") or 0),
            int(source.get("planned_files") or 0),
            batch_descriptions.file_name((source.get("newest") or {}).get("path") or ""),
        )
        for source in report.get("sources") or []
    ]


@dataclass(frozen=True)
class VersionRow:
    """`began`, `ended`: planning times (ms) of the oldest and newest batch that was planned in this version."""

    number: int
    in_use: bool
    batches: str
    says: str
    began: int | None
    ended: int | None
    query_id: str


def version_rows(uses: Sequence[VersionUse]) -> list[VersionRow]:
    """Newest first. Spark takes the highest number; it deletes none."""
    return [
        VersionRow(
            use.number,
            place == 0,
            "none" if use.first_batch is None else f"{use.first_batch} to {use.last_planned}",
            _use_text(use),
            use.from_ms,
            use.to_ms,
            use.query_id or "none",
        )
        for place, use in enumerate(uses)
    ]


def _use_text(use: VersionUse) -> str:
    if use.first_batch is None:
        return "Empty: nothing was planned in it."
    done = (
        "nothing committed" if use.last_committed is None else f"committed up to batch {use.last_committed}"
    )
    if use.seeded_at is not None:
        says = f"Seeded at batch {use.seeded_at}; {done}."
    elif use.copied_to is not None:
        says = f"As the version before up to batch {use.copied_to}; {done}."
    else:
        says = f"{done.capitalize()}."
    return f"{says} Not whole: {use.why}." if use.why else says
