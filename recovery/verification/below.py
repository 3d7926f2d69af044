"""Does what stands downstream show what the flow's table holds? Pure: what the refresh made of it in, a finding out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from recovery.verification.finding import Finding, not_yielded

DONE: Final = "COMPLETED"


class NotCompared(StrEnum):
    """Why the rows of a refreshed dataset are not compared; "" where they are, or where it was not noted. Plans of
    earlier versions left these out; those of today compare every dataset."""

    NONE = ""
    DEFINED_IN_SQL = "defined_in_sql"  # only an update computes its definition
    READS_STREAM = "reads_stream"  # a streaming table: what it has read before cannot be computed by a read


BECAUSE: Final = {
    NotCompared.DEFINED_IN_SQL: "defined in SQL",
    NotCompared.READS_STREAM: "a streaming table",
}


@dataclass(frozen=True)
class Refreshed:
    """One dataset downstream after the refresh.

    `status`: what the update of the refresh said last of its flow, "" nothing. Of a dataset that was compared: `rows`
    it holds, `expected_rows` that its definition yields over the tables now, `missing` and `extra` of their exact
    difference; `problem`: why it could not be compared; `unsure`: by what two computations of it differ by themselves,
    `rows_unsure`: in the number of rows too; `left_out`: columns that were not compared, for they do; `table_only`: nor
    were these, which the definition does not yield.
    `not_compared`: why it was not tried. `view`: computed anew by each update; else a table that reads a stream, whose
    older rows may come from older code, so that a difference proves nothing of this recovery.
    """

    dataset: str
    status: str
    compared: bool = False
    rows: int | None = None
    expected_rows: int | None = None
    missing: int | None = None
    extra: int | None = None
    problem: str = ""
    unsure: tuple[str, ...] = ()
    not_compared: NotCompared = NotCompared.NONE
    view: bool = True
    left_out: tuple[str, ...] = ()
    rows_unsure: bool = False
    table_only: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool | None:
        """None: not known, or not compared."""
        if None in (self.missing, self.extra, self.rows, self.expected_rows):
            return None
        if not (self.missing or self.extra):
            return True if self.rows == self.expected_rows else None
        if not self.view:
            return None
        same_number = self.rows == self.expected_rows
        return None if self.unsure and (same_number or self.rows_unsure) else False

    def as_dict(self) -> dict[str, Any]:
        lists = {name: list(getattr(self, name)) for name in ("unsure", "left_out", "table_only")}
        return {**asdict(self), **lists, "agrees": self.agrees}


@dataclass(frozen=True)
class Uncompared:
    """A dataset downstream that was refreshed, and whose rows were not compared."""

    dataset: str
    why: NotCompared

    @property
    def says(self) -> str:
        because = BECAUSE.get(self.why)
        return f"{_short([self.dataset])} ({because})" if because else _short([self.dataset])


def uncompared(measured: Mapping[str, Any]) -> tuple[Uncompared, ...]:
    """What a proof does not speak of, of the datasets that it names; reads `recovery.measured`, of any edition."""
    return tuple(
        Uncompared(str(one["dataset"]), _why(one.get("not_compared")))
        for one in measured.get("downstream") or ()
        if one.get("status") == DONE and not one.get("compared")
    )


def _why(code: str | None) -> NotCompared:
    return NotCompared(code) if code in frozenset(NotCompared) else NotCompared.NONE


def downstream_agrees(expected: Mapping[str, Any], refreshed: Sequence[Refreshed] | None) -> Finding:
    """Every dataset of the plan was refreshed by an update that began after the rerun, and ended well for it; each that
    the plan names as compared holds exactly what its definition yields. Not known where one could not be compared."""
    if refreshed is None:
        return Finding(None, None, "Nothing below was refreshed.")
    by_name = {r.dataset: r for r in refreshed}
    named = [str(d) for d in expected.get("datasets") or ()]
    compared = [str(d) for d in expected.get("compared") or ()]
    measured = [r.as_dict() for r in refreshed]
    if away := [d for d in named if d not in by_name or by_name[d].status != DONE]:
        return Finding(measured, False, f"The refresh did not complete {_short(away)}.")
    if wrong := [by_name[d] for d in compared if by_name[d].agrees is False]:
        return Finding(measured, False, " ".join(map(_differs, wrong)))
    if open_ := [by_name[d] for d in compared if by_name[d].agrees is None]:
        return Finding(measured, None, " ".join(map(_not_known, open_)))
    others = [by_name[d] for d in named if d not in compared]
    return Finding(measured, True, _all_well([by_name[d] for d in compared], others))


def _all_well(compared: Sequence[Refreshed], others: Sequence[Refreshed]) -> str:
    says = [
        f"{_short([r.dataset])} holds the {r.rows:,} rows that its definition yields{_but(r)}."
        + not_yielded(r.table_only)
        for r in compared
    ]
    if others:
        names = ", ".join(Uncompared(r.dataset, r.not_compared).says for r in others)
        says.append(f"Refreshed and not compared: {names}.")
    return " ".join(says)


def _but(one: Refreshed) -> str:
    """`, but for loaded_at, which holds another value at each run`."""
    if not one.left_out:
        return ""
    verb = "holds" if len(one.left_out) == 1 else "hold"
    return f", but for {', '.join(one.left_out)}, which {verb} another value at each run"


def _differs(one: Refreshed) -> str:
    return (
        f"{_short([one.dataset])} holds {one.rows} rows and its definition yields {one.expected_rows}: "
        f"{one.missing} missing, {one.extra} too many."
    )


def _not_known(one: Refreshed) -> str:
    if not one.view and one.missing is not None and not one.problem:
        return f"{_differs(one)} Which of its rows older code wrote is not known."
    why = one.problem or f"its rows differ by themselves at each run ({', '.join(one.unsure)})"
    return f"Whether {_short([one.dataset])} agrees is not known: {why.rstrip('.')}."


def _short(names: Sequence[str]) -> str:
    return ", ".join(n.rsplit(".", 1)[-1] for n in names)
