"""Several failed flows of one pipeline on their way to one joint plan: where each is, and the next act. Pure over rows
already read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from console.presenters import status, words
from console.presenters.wizard import ActionBar, ForecastNumber, Primary, forecast_view
from recovery.contracts.names import Strategy, name_strategy
from recovery.diagnosis.advice import asks_meant
from recovery.models import Flow, Plan, Recovery, Step
from recovery.workflow.plan_basis import digest_basis
from recovery.workflow.transitions import OPEN

WORKING: Final = ("counting", "sealing")
BADGES: Final = {
    "not-open": status.Badge("failed", "Failed, no recovery"),
    "not-counted": status.Badge("pending", "Not counted"),
    "counting": status.Badge("running", "Rows are counted"),
    "needs-answer": status.Badge("attention", "Needs an answer"),
    "needs-strategy": status.Badge("attention", "Needs a strategy"),
    "not-sealed": status.Badge("attention", "Needs a decision"),
    "ready": status.Badge("ok", "Ready to seal"),
    "sealing": status.Badge("running", "Plan is sealed now"),
    "sealed": status.Badge("ok", "Plan sealed"),
    "further": status.Badge("stopped", "Not for a joint plan"),
}
"""Where a flow is, by code."""
TO_DECIDE: Final = {"needs-strategy": "offset", "not-sealed": "review"}
"""Where a person decides of one flow: the page of the wizard."""


@dataclass(frozen=True)
class FlowOnTheWay:
    """One flow. `code`: one of `BADGES`; `page`: of the wizard, where something is decided or was, "" without one;
    `says`: why it does not go on by itself; `new_rows`: what its update writes, in words. A forecast that sealing has
    found otherwise is left out."""

    flow: Flow
    recovery: Recovery | None
    code: str
    chosen: bool
    strategy: str = ""
    forecast: Sequence[ForecastNumber] = ()
    new_rows: str = ""
    says: str = ""
    page: str = ""

    @property
    def way(self) -> str:
        """The words that lead to `page`."""
        label = "" if self.recovery is None else self.recovery.label
        words_of = {"sealed": "Read its plan", "ready": f"Change strategy or start in {label}"}
        return words_of.get(self.code, f"Decide in {label}")

    @property
    def badge(self) -> status.Badge:
        """Where it is, in words."""
        return BADGES[self.code]


def describe_flow(
    flow: Flow, recovery: Recovery | None, plan: Plan | None, strategy: Strategy | None, *, chosen: bool
) -> FlowOnTheWay:
    """`strategy`: the one that its plan will have, or has; None: a person has to choose."""
    if recovery is None:
        return FlowOnTheWay(flow, None, "not-open", chosen)
    code, says = _find_code(recovery, plan, strategy)
    option = recovery.gathered.option_of(strategy) if recovery.gathering.status == "ready" else None
    forecast = plan.contents.forecast if plan is not None else option.forecast if option is not None else None
    if code == "not-sealed":
        forecast = None
    named = plan.contents.strategy if plan is not None else strategy
    rows = forecast.new_rows if forecast is not None else None
    return FlowOnTheWay(
        flow,
        recovery,
        code,
        chosen and code != "further",
        strategy=name_strategy(named) if named else "",
        forecast=forecast_view(forecast) if forecast is not None else (),
        new_rows="" if rows is None else words.format_count(rows, "row"),
        says=says,
        page={**TO_DECIDE, "ready": "offset", "sealed": "review"}.get(code, ""),
    )


def _find_code(recovery: Recovery, plan: Plan | None, strategy: Strategy | None) -> tuple[str, str]:
    counted, chosen = recovery.gathering, recovery.chosen
    if recovery.state == "planned":
        joined = plan is not None and plan.joint is not None
        return ("further", "Its plan is part of another joint plan.") if joined else ("sealed", "")
    if recovery.state != "diagnosing":
        return "further", f"{recovery.label} is past planning." if recovery.state in OPEN else ""
    if chosen.sealing.status == "working":
        return "sealing", ""
    if counted.status == "working":
        return "counting", ""
    if counted.status != "ready":
        return "not-counted", counted.problem or ""
    if chosen.sealing.status == "failed" and chosen.sealing.basis in ("", digest_basis(recovery)):
        return "not-sealed", chosen.sealing.problem or ""
    if strategy is None:
        unanswered = chosen.meant is None and asks_meant(recovery.diagnosis_value.advice)
        if unanswered:
            return (
                "needs-answer",
                "What is recommended depends on whether the change was meant: answer above.",
            )
        return "needs-strategy", "None is recommended that can be undone and costs no row."
    return "ready", ""


def next_act(
    rows: Sequence[FlowOnTheWay], stop: Step | None, pipeline: str, why_not: str | None
) -> ActionBar:
    """The one next act for those chosen. `stop`: the newest early stop of one of them; `why_not`: why this person may
    not act."""
    chosen = [row for row in rows if row.chosen]
    count = words.format_count(len(chosen), "flow")
    by_code = {code: [row for row in chosen if row.code == code] for code in BADGES}

    def bar(code: str, effect: str, more: str, word: str, no: str | None = None) -> ActionBar:
        act = Primary(word, form="together", name="act", value=code)
        return ActionBar(effect, more, act, why_not=why_not or no, code=code)

    if len(chosen) < 2:
        few = "Choose two or more flows; a single one is recovered from its own page."
        return bar("open", "Recovers several flows with one update.", "", "Open recoveries", few)
    if rows_open := by_code["not-open"]:
        says = f"Opens {words.format_count(len(rows_open), 'recovery', 'recoveries')} in your name."
        return bar("open", says, "Changes nothing in the pipeline.", "Open recoveries")
    if any(row.code in WORKING for row in chosen) or (stop is not None and stop.state in _MOVING):
        return ActionBar("Nothing to do now.", "This page shows when the workers are done.", code="working")
    if len(by_code["sealed"]) == len(chosen):
        return bar(
            "join",
            f"Seals the plans of {count} together.",
            "Nothing runs: next are Review, and votes where they are needed, once for all of them.",
            f"Seal {len(chosen)} plans together",
        )
    if stop is None or stop.state != "done":
        more = "Once for all of them. Changes no checkpoint, no code, no table."
        word = f"Stop {pipeline}" if stop is None else "Stop again"
        return bar("stop", f"Stops {pipeline} and proves that nothing runs.", more, word)
    if by_code["not-counted"]:
        more = "Reads only: checkpoints, code, input, tables."
        return bar("count", "Counts what waits and judges each strategy.", more, f"Count rows of {count}")
    open_ones = [row for code in TO_DECIDE for row in by_code[code]]
    no = f"Decide first: {', '.join(row.flow.short for row in open_ones)}." if open_ones else None
    if by_code["needs-answer"]:
        no = "Answer first whether the change was meant."
    left = len(chosen) - len(by_code["sealed"])
    return bar(
        "seal",
        "Seals one plan a flow, all with the same code.",
        "Everything is read once more. Nothing runs.",
        f"Seal {words.format_count(left, 'plan')}",
        no,
    )


_MOVING: Final = ("pending", "running", "unknown")
