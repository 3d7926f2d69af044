"""The proof: verdict, criteria with expected and measured, forecast against what happened, samples. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.presenters import status, words
from console.presenters.reviewing import expected, plain


@dataclass(frozen=True)
class Verdict:
    kind: str
    title: str
    text: str
    #: which verdict this is, for `data-code` of the page
    code: str


def verdict(recovery: Any, measured: Mapping[str, Any]) -> Verdict:
    """One sentence that a person may rely on; never more than was measured."""
    criteria = measured.get("criteria") or []
    if recovery.state == "unproven":
        return Verdict("attention", "Ended without proof.", recovery.reason, "unproven")
    if recovery.state == "verifying":
        return Verdict(
            "running",
            "The criteria are being measured.",
            "On Spark, in a fresh session. COMPLETED is not yet proof.",
            "measuring",
        )
    if not criteria:
        return Verdict(
            "unknown",
            "Nothing was measured yet.",
            "The criteria of the plan are measured after the rerun.",
            "not-measured",
        )
    holds = sum(c.get("ok") is True for c in criteria)
    said = (
        f"{holds} of {len(criteria)} criteria hold, measured on Spark in a fresh session. "
        "They were fixed in the plan before anything ran."
    )
    if measured.get("verified") is True:
        rows = next((c["says"] for c in criteria if c.get("code") == "EVERY_ROW_ONCE"), "")
        return Verdict("ok", rows or "Every expected row is in the table exactly once.", said, "proven")
    wrong = [c for c in criteria if c.get("ok") is False]
    if wrong:
        return Verdict(
            "failed",
            str(wrong[0].get("why") or wrong[0]["says"]),
            f"{said} {recovery.label} stays open.",
            "not-proven",
        )
    return Verdict(
        "unknown",
        "Not proven: some criteria could not be measured.",
        f"{said} {recovery.label} stays open.",
        "not-all-measured",
    )


@dataclass(frozen=True)
class CriterionRow:
    number: int
    says: str
    expected: str
    measured: str
    badge: status.Badge
    why: str
    code: str


def criteria(measured: Mapping[str, Any], planned: Sequence[Mapping[str, Any]]) -> list[CriterionRow]:
    """Failing ones first, then unknown, then those that hold. Before the measurement: as planned."""
    found = measured.get("criteria") or [{**c, "measured": None, "ok": None, "why": ""} for c in planned]
    rows = [
        CriterionRow(
            number,
            str(c["says"]),
            expected(str(c["code"]), c.get("expected")),
            plain(c.get("measured")),
            status.holds(c.get("ok")),
            str(c.get("why") or ""),
            str(c["code"]),
        )
        for number, c in enumerate(found, start=1)
    ]
    rank = {"failed": 0, "unknown": 1, "ok": 2}
    return sorted(rows, key=lambda r: rank[r.badge.kind])


def counted(rows: Sequence[CriterionRow]) -> str:
    number = {k: sum(r.badge.kind == k for r in rows) for k in ("ok", "failed", "unknown")}
    return f"{number['ok']} hold, {number['failed']} fail, {number['unknown']} unknown"


@dataclass(frozen=True)
class Against:
    word: str
    forecast: str
    measured: str
    difference: str
    bad: bool


def against(forecast: Mapping[str, Any], measured: Mapping[str, Any]) -> list[Against]:
    """Forecast against what happened, where both are numbers."""
    return [
        _against(word, forecast.get(planned), measured.get(found))
        for word, planned, found in (
            ("New rows", "new_rows", "new_rows"),
            ("Rows in the table", "table_after", "table_rows"),
        )
        if (planned, found) != ("table_after", "table_rows")
        or {forecast.get(planned), measured.get(found)} != {None}  # there is no table
    ]


def _against(word: str, planned: int | None, found: int | None) -> Against:
    if planned is None or found is None:
        return Against(word, words.count(planned, "row"), words.count(found, "row"), "unknown", False)
    gap = found - planned
    sign = "0" if gap == 0 else f"{'+' if gap > 0 else '−'}{abs(gap):,}"
    return Against(word, words.count(planned, "row"), words.count(found, "row"), sign, gap != 0)


@dataclass(frozen=True)
class Sample:
    title: str
    columns: list[str]
    rows: list[list[str]]


def samples(measured: Mapping[str, Any]) -> list[Sample]:
    """Rows that are missing or too many, as Spark showed them."""
    found = []
    for name, raw in (measured.get("samples") or {}).items():
        if not raw:
            continue
        records = (
            [r if isinstance(r, Mapping) else {"value": r} for r in raw]
            if isinstance(raw, list)
            else [{"value": raw}]
        )
        columns = list(dict.fromkeys(c for r in records for c in r))
        rows = [[_verbatim(r[c]) if c in r else "" for c in columns] for r in records[:50]]
        found.append(Sample(str(name).replace("_", " ").capitalize(), [str(c) for c in columns], rows))
    return found


def _verbatim(value: Any) -> str:
    """A value of a row as it stands in the data: no separators, no words."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def times(recovery: Any, plan: Any | None, steps: Sequence[Any]) -> list[tuple[str, Any, str]]:
    """From the failure to the proof."""
    rerun = next((s for s in steps if s.kind == "rerun" and s.state == "done"), None)
    rows: list[tuple[str, Any, str]] = [
        ("Failed", recovery.flow.failing_since, ""),
        ("Recovery opened", recovery.created_at, f"by {recovery.created_by}"),
        ("Plan sealed", plan.sealed_at if plan else None, f"by {plan.sealed_by}" if plan else ""),
        ("Update ended", rerun.ended_at if rerun else None, ""),
        ("Proven" if recovery.state == "succeeded" else "Measured", recovery.measured.get("at"), ""),
    ]
    return [r for r in rows if r[1]]
