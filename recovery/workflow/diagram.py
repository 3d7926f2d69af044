"""Draws the transition table into docs/states.md: `python -m recovery.workflow.diagram`. A test compares the two."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from recovery.workflow.transitions import (
    APPROVAL_ARROWS,
    OPEN,
    RECOVERY_ARROWS,
    SKIPS,
    STEP_ARROWS,
    Arrow,
    Guard,
)

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "states.md"
_PARTS: Final = (
    ("Recovery", RECOVERY_ARROWS, "diagnosing"),
    ("Step", STEP_ARROWS, "pending"),
    ("Request for approval", APPROVAL_ARROWS, "open"),
)
_HEAD: Final = """# States

Drawn from `recovery/workflow/transitions.py` by `.venv/bin/python -m recovery.workflow.diagram`; a test compares.
Nothing moves but along these arrows, by compare-and-set, and only where the condition next to the arrow holds.

A recovery holds its flow, so that no second one of that flow can be opened, while it is: {open}.
"""

_SKIPS: Final = """Only while the recovery needs attention, only the step on which it waits (failed, unknown with its
evidence, or not begun), only with a reason, and only by who may run the plan. It is audited, and reviewed in
production."""


def text() -> str:
    """The whole page, as Markdown."""
    parts = [_HEAD.format(open=", ".join(s for s in _states(RECOVERY_ARROWS) if s in OPEN))]
    return "\n".join([*parts, *(_part(name, arrows, first) for name, arrows, first in _PARTS), _skips()])


def _skips() -> str:
    lines = ["## Steps that a person may skip", "", _SKIPS, "", "| step | may be skipped | because | then |"]
    lines += ["|---|---|---|---|"]
    for kind, rule in SKIPS.items():
        lines.append(f"| {kind} | {'yes' if rule.may else 'no'} | {rule.because} | {rule.then} |")
    return "\n".join([*lines, ""])


def _part(name: str, arrows: tuple[Arrow, ...], first: str) -> str:
    ends = [s for s in _states(arrows) if not any(a.old == s for a in arrows)]
    lines = [f"## {name}", "", "```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [f"    {a.old} --> {a.new}" for a in arrows]
    lines += [f"    {s} --> [*]" for s in ends]
    lines += ["```", "", "| from | to | when | only if |", "|---|---|---|---|"]
    lines += [
        f"| {a.old} | {a.new} | {a.when} | {'' if a.guard is Guard.NONE else a.guard.value} |" for a in arrows
    ]
    return "\n".join([*lines, ""])


def _states(arrows: Iterable[Arrow]) -> list[str]:
    return list(dict.fromkeys(s for a in arrows for s in (a.old, a.new)))


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
