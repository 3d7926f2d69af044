"""A checkpoint report as the checkpoint tab shows it: judgement, findings, batches, state against code. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.presenters import status, words
from recovery.checkpoints import said
from recovery.checkpoints.uses import VersionUse
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


def findings(raw: Sequence[Mapping[str, Any]]) -> list[FindingRow]:
    """Blockers first."""
    rank = list(KINDS)
    ordered = sorted(raw, key=lambda f: rank.index(f["severity"]) if f["severity"] in rank else 0)
    return [
        FindingRow(
            status.badge(status.SEVERITY, str(f["severity"])),
            KINDS.get(str(f["severity"]), "info"),
            str(f["says"]),
            str(f.get("do") or ""),
            str(f.get("code") or ""),
            str(f.get("file") or ""),
            str(f.get("spark") or ""),
            said.next_run(str(f.get("outcome") or "")),
            str(f.get("outcome") or ""),
        )
        for f in ordered
    ]


def judgement(report: Mapping[str, Any]) -> tuple[status.Badge, str]:
    """Intact, or the first blocker; `none` where there is no checkpoint."""
    if report.get("format") == "none":
        return status.Badge("unknown", "None"), "no checkpoint stands at this place"
    blockers = [f for f in report.get("findings") or [] if f["severity"] == "blocker"]
    if blockers:
        return status.Badge("failed", "Damaged"), str(blockers[0]["says"])
    return status.Badge("ok", "Intact"), "every file that a restart needs is present and readable"


def counted(rows: Sequence[FindingRow]) -> str:
    """`1 blocker, 0 warnings, 2 notes`."""
    number = {k: sum(r.kind == k for r in rows) for k in KINDS}
    return ", ".join(
        words.count(number[k], noun)
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


def batches(report: Mapping[str, Any]) -> list[BatchRow]:
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


def operators(report: Mapping[str, Any], in_code: Sequence[str] | None) -> list[OperatorRow]:
    """State operators of the checkpoint beside those of the code; None: the code was not asked."""
    held = list(report.get("state_operators") or [])
    rows = []
    for place, operator in enumerate(held):
        name = str(operator["name"])
        there = in_code[place] if in_code is not None and place < len(in_code) else None
        keys = ", ".join(operator.get("key_columns") or [])
        detail = f"{words.count(operator.get('partitions'), 'partition')}" + (
            f", keys {keys}" if keys else ""
        )
        verdict = _verdict(name, there, in_code is None)
        back = words.ranges(operator.get("back") or [])
        rows.append(OperatorRow(operator["operator_id"], name, detail, *verdict, _holds(operator), back))
    for place in range(len(held), len(in_code or [])):
        badge = status.Badge("failed", "Not compatible")
        name = (in_code or [])[place]
        rows.append(OperatorRow(place, "none", "", name, badge, "The checkpoint holds no state for it."))
    return rows


def _holds(operator: Mapping[str, Any]) -> str:
    """`1,204 keys, 2.4 MiB, HDFSBackedStateStoreProvider`: what of it is known."""
    keys = words.count(operator["rows"], "key") if operator.get("rows") is not None else ""
    size = words.size(operator["size_bytes"]) if operator.get("size_bytes") is not None else ""
    return ", ".join(filter(None, (keys, size, str(operator.get("provider") or ""))))


def _verdict(held: str, there: str | None, unasked: bool) -> tuple[str, status.Badge, str]:
    if unasked:
        return (
            "not known",
            status.Badge("unknown", "Cannot tell"),
            "Nobody has asked Spark for the code's operators.",
        )
    if there == held:
        return there, status.Badge("ok", "Compatible"), "The same kind of step stands at this place."
    means = "Its state cannot be kept by this code."
    return there or "none", status.Badge("failed", "Not compatible"), means


@dataclass(frozen=True)
class SourceRow:
    """`key`: the source's name, else its index; `log`: as its log's folder is called; `label`: where it stands."""

    index: int
    key: str
    log: str
    kind: str
    label: str
    offset: str
    read: int
    planned: int
    last: str


def sources(report: Mapping[str, Any]) -> list[SourceRow]:
    return [
        SourceRow(
            int(source["index"]),
            str(source.get("name") or source["index"]),
            str(source.get("log") or source.get("name") or source["index"]),
            str(source.get("kind") or "unknown"),
            labels.label(str(source.get("kind") or "unknown"), source.get("offset_json")),
            str(source.get("offset_json") or "none"),
            int(source.get("committed_files") or 0),
            int(source.get("planned_files") or 0),
            said.file_name((source.get("newest") or {}).get("path") or ""),
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


def versions(uses: Sequence[VersionUse]) -> list[VersionRow]:
    """Newest first. Spark takes the highest number; it deletes none."""
    return [
        VersionRow(
            use.number,
            place == 0,
            "none" if use.first_batch is None else f"{use.first_batch} to {use.last_planned}",
            _used(use),
            use.from_ms,
            use.to_ms,
            use.query_id or "none",
        )
        for place, use in enumerate(uses)
    ]


def _used(use: VersionUse) -> str:
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
