"""Small bar charts of a flow's batches: numbers drawn by the server, each also said in words. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.presenters import words
from recovery.pipelines.events import Batch

SHOWN: Final = 6
"""How many batches one chart has room for."""

WIDTH, BASE, HEIGHT = 200.0, 56.0, 53.3  # of the drawing, in its own units


@dataclass(frozen=True)
class ChartBar:
    """`label` is under it: the batch, then its number. A bar without a height is a number that was not reported."""

    x: float
    y: float
    width: float
    height: float
    label: str
    value: str
    #: "bar", "wait", or "none"
    kind: str = "bar"


@dataclass(frozen=True)
class Chart:
    name: str
    unit: str
    says: str
    bars: tuple[ChartBar, ...]


def of_batches(batches: Sequence[Batch], waiting_rows: int | None = None) -> list[Chart]:
    """Rows read, rows written, duration and state of the newest batches; a kind that no batch recorded is left out.

    `waiting_rows`: what the next batch would read, where that was counted; drawn dashed.
    """
    kinds: list[tuple[str, str, Callable[[Batch], float | None]]] = [
        ("Rows read", "per batch", lambda b: b.rows_in),
        ("Rows written", "per batch", lambda b: b.rows_out),
        ("Batch duration", "seconds", lambda b: b.seconds),
        ("State held", "keys", lambda b: b.state_rows),
    ]
    charts = []
    for name, unit, number in kinds:
        points = [(str(b.number), number(b)) for b in batches[-SHOWN:]]
        if any(value is not None for _, value in points):
            charts.append(draw_chart(name, unit, points, waiting_rows if name == "Rows read" else None))
    return charts


def of_growth(operators: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """State files written by the newest batches, for each operator that tells. State version v is of batch v - 1."""
    charts = []
    for operator in operators:
        points = [(int(g["version"]) - 1, int(g["size_bytes"])) for g in operator.get("growth") or []][
            -SHOWN:
        ]
        if points:
            scale, unit = _choose_unit(max(size for _, size in points))
            name = f"State written, operator {operator['operator_id']}"
            charts.append(
                draw_chart(
                    name,
                    f"{unit} per batch",
                    [(str(n), size / scale if scale > 1 else size) for n, size in points],
                )
            )
    return charts


def _choose_unit(largest: int) -> tuple[int, str]:
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if largest >= 1024**power:
            return 1024**power, unit
    return 1, "bytes"


def draw_chart(
    name: str, unit: str, points: Sequence[tuple[str, float | None]], waits: float | None = None
) -> Chart:
    """`points`: batch and number, oldest first; None is a number that was not reported."""
    slots = [(label, value, "none" if value is None else "bar") for label, value in points]
    if waits:
        slots.append(("next", waits, "wait"))
    top = max([value for _, value, _ in slots if value] or [1.0])
    room = WIDTH / len(slots)
    bars = tuple(
        _make_bar(place * room, room, label, value, top, kind)
        for place, (label, value, kind) in enumerate(slots)
    )
    said = [f"batch {label}: {_exact_text(value)}" for label, value in points]
    said += [f"{_exact_text(waits)} wait for the next one"] if waits else []
    return Chart(name, unit, f"{name}, {unit}. {', '.join(said)}.", bars)


def _make_bar(left: float, room: float, label: str, value: float | None, top: float, kind: str) -> ChartBar:
    width = room * 0.44
    height = max(2.0, HEIGHT * (value or 0) / top)  # 0 is drawn as a line, so that it is seen to be known
    x, y = round(left + (room - width) / 2, 1), round(BASE - height, 1)
    return ChartBar(x, y, round(width, 1), round(height, 1), label, _short_text(value), kind)


def _exact_text(value: float | None) -> str:
    if value is None:
        return "unknown"
    return words.format_number(round(value, 1) if isinstance(value, float) else value)


def _short_text(value: float | None) -> str:
    """`8`, `2.9`, `12 k`, `1.2 M`: fits under a bar; the exact number is in the chart's words."""
    if value is None:
        return "–"
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            amount = value / (1e3 if unit == " k" else size)
            return f"{amount:.0f}{unit}" if amount >= 10 else f"{amount:.1f}{unit}"
    return _exact_text(value)
