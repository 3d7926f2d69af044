"""Who reads the flow's table, and what a plan does to each: values that are sealed, shown and measured. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Effect(StrEnum):
    """What becomes of a dataset downstream."""

    REFRESHED = "refreshed"
    STALE = "stale"
    EMPTIED = "emptied"
    DOUBLED = "doubled"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a dataset is not simply refreshed; "" where it is."""

    NONE = ""
    LEFT_OUT = "left_out"  # a person left the step out
    ELSEWHERE = "elsewhere"  # another pipeline writes it
    FAILING = "failing"  # its own flow fails
    NOT_SEEN = "not_seen"  # no update that is known has run it
    REPEATS = "repeats"  # it reads as a stream what this plan brings a second time
    TABLE_ANEW = "table_anew"  # it reads as a stream a table that is emptied and written anew
    ROWS_UNKNOWN = "rows_unknown"  # whether rows come twice is not known
    OF_BEHIND = "of_behind"  # it reads a dataset that the plan does not refresh
    READS_STALE = (
        "reads_stale"  # it also reads a dataset beside the flow's that is behind, which the plan leaves alone
    )


@dataclass(frozen=True)
class Reader:
    """A dataset downstream of the flow's table, as the inventory knows it, nearest first.

    `dataset` and `flow` by full name. `view`: computed anew by each update; else a table that reads a stream.
    `pipeline`: of another pipeline, its name; "" of this one. `state`: of its flow in the inventory.
    `inputs`: the datasets that it reads, by full name. `late_inputs`: those of them that do not stand below the flow's
    table and are behind themselves, or empty.
    """

    dataset: str
    flow: str
    view: bool
    state: str = "ok"
    pipeline: str = ""
    emptied: bool = False
    inputs: tuple[str, ...] = ()
    late_inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Downstream:
    """One dataset downstream and what a plan does to it.

    `rows`: of `doubled`, rows of the flow's table that reach it a second time; of `stale`, new rows of that table that
    it does not show; of a streaming table that is `refreshed`, new rows that it reads. None: not known, or none apply.
    """

    dataset: str
    effect: Effect
    rows: int | None = None
    reason: Reason = Reason.NONE
    view: bool = True
    pipeline: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "effect": self.effect.value,
            "rows": self.rows,
            "reason": self.reason.value or None,
            "kind": "view" if self.view else "table",
            "pipeline": self.pipeline or None,
        }


def stored(forecast: Mapping[str, Any]) -> tuple[Downstream, ...]:
    """From a stored forecast; none where it was sealed before plans looked downstream."""
    return tuple(
        Downstream(
            str(d["dataset"]),
            Effect(d["effect"]),
            d.get("rows"),
            Reason(d.get("reason") or ""),
            d.get("kind", "view") == "view",
            str(d.get("pipeline") or ""),
        )
        for d in forecast.get("downstream") or ()
    )


def left_behind(forecast: Mapping[str, Any]) -> tuple[Downstream, ...]:
    """What a plan does not bring up to date."""
    return tuple(d for d in stored(forecast) if d.effect is not Effect.REFRESHED)
