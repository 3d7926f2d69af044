"""Does what stands downstream show what the flow's table holds? Pure: what the refresh made of it in, a finding out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recovery.contracts import codec
from recovery.contracts.criterion_values import ExpectedDatasets, MeasuredDataset, MeasuredDatasets
from recovery.contracts.measured import MeasuredBelow
from recovery.contracts.refreshed import NotCompared, RefreshedDataset
from recovery.verification.finding import CriterionFinding, not_yielded

DONE: Final = "COMPLETED"


BECAUSE: Final = {
    NotCompared.DEFINED_IN_SQL: "defined in SQL",
    NotCompared.READS_STREAM: "a streaming table",
}


@dataclass(frozen=True)
class Uncompared:
    """A dataset downstream that was refreshed, and whose rows were not compared."""

    dataset: str
    why: NotCompared

    @property
    def says(self) -> str:
        because = BECAUSE.get(self.why)
        return f"{_short([self.dataset])} ({because})" if because else _short([self.dataset])


def uncompared(measured: MeasuredBelow | None) -> tuple[Uncompared, ...]:
    """What a proof does not speak of, of the datasets that it names."""
    return tuple(
        Uncompared(one.dataset, one.not_compared)
        for one in (measured.downstream if measured else ())
        if one.status == DONE and not one.compared
    )


def downstream_agrees(
    expected: ExpectedDatasets, refreshed: Sequence[RefreshedDataset] | None
) -> CriterionFinding:
    """Every dataset of the plan was refreshed by an update that began after the rerun, and ended well for it; each that
    the plan names as compared holds exactly what its definition yields. Not known where one could not be compared."""
    if refreshed is None:
        return CriterionFinding(None, None, "Nothing below was refreshed.")
    by_name = {r.dataset: r for r in refreshed}
    named, compared = expected.datasets, expected.compared
    measured = MeasuredDatasets(tuple(codec.read(MeasuredDataset, codec.to_json(r)) for r in refreshed))
    if away := [d for d in named if d not in by_name or by_name[d].status != DONE]:
        return CriterionFinding(measured, False, f"The refresh did not complete {_short(away)}.")
    if wrong := [by_name[d] for d in compared if by_name[d].agrees is False]:
        return CriterionFinding(measured, False, " ".join(map(_differs, wrong)))
    if open_ := [by_name[d] for d in compared if by_name[d].agrees is None]:
        return CriterionFinding(measured, None, " ".join(map(_not_known, open_)))
    others = [by_name[d] for d in named if d not in compared]
    return CriterionFinding(measured, True, _all_well([by_name[d] for d in compared], others))


def _all_well(compared: Sequence[RefreshedDataset], others: Sequence[RefreshedDataset]) -> str:
    says = [
        f"{_short([r.dataset])} holds the {r.rows:,} rows that its definition yields{_but(r)}."
        + not_yielded(r.table_only)
        for r in compared
    ]
    if others:
        names = ", ".join(Uncompared(r.dataset, r.not_compared).says for r in others)
        says.append(f"Refreshed and not compared: {names}.")
    return " ".join(says)


def _but(one: RefreshedDataset) -> str:
    """`, but for loaded_at, which holds another value at each run`."""
    if not one.left_out:
        return ""
    verb = "holds" if len(one.left_out) == 1 else "hold"
    return f", but for {', '.join(one.left_out)}, which {verb} another value at each run"


def _differs(one: RefreshedDataset) -> str:
    return (
        f"{_short([one.dataset])} holds {one.rows} rows and its definition yields {one.expected_rows}: "
        f"{one.missing} missing, {one.extra} too many."
    )


def _not_known(one: RefreshedDataset) -> str:
    if not one.view and one.missing is not None and not one.problem:
        return f"{_differs(one)} Which of its rows older code wrote is not known."
    why = one.problem or f"its rows differ by themselves at each run ({', '.join(one.unsure)})"
    return f"Whether {_short([one.dataset])} agrees is not known: {why.rstrip('.')}."


def _short(names: Sequence[str]) -> str:
    return ", ".join(n.rsplit(".", 1)[-1] for n in names)
