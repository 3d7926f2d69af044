"""What the physical plan of a batch says: its stateful steps, the columns they keep, and where the checkpoint is."""

import re
from dataclasses import dataclass
from typing import Final

from recovery.eventlogs.values import Operator

MOST_PLAN: Final = 4 << 20
MOST_OPERATORS: Final = 50
MOST_DESCRIPTION: Final = 2_000
_STATE: Final = "state info [ checkpoint = "
LONGEST_PLACE: Final = 2_000
_OF_STATE: Final = re.compile(r", runId = ([0-9a-f-]{36}), opId = (\d{1,5}),")
_RUN: Final = re.compile(r"^runId = ([0-9a-f-]{36})$", re.MULTILINE)
_NO_PLACE: Final = "<unknown>"
_STEP: Final = re.compile(r"^\((\d{1,6})\) (\w{1,100})", re.MULTILINE)
_COLUMNS: Final = re.compile(r"^(?:Arguments|Keys(?: \[\d+\])?): ?\[([^\]\n]{0,4000})\]", re.MULTILINE)
_ID: Final = re.compile(r"#\d+L?(?:-T\w+)?")


@dataclass(frozen=True)
class PlanFacts:
    """`checkpoint`: the query's folder, "" where the plan does not name it: Spark prints that of a file table and of
    `foreachBatch` before it knows the place, and with the id of no run."""

    run_id: str
    checkpoint: str
    operators: tuple[Operator, ...]


def read_plan(text: str, description: str) -> PlanFacts | None:
    """Of a plan with state; None for any other. `description`: of the execution, which names the run of its batch."""
    text = text[:MOST_PLAN]
    first = _find_state(text, 0, len(text))
    if first is None:
        return None
    steps = list(_STEP.finditer(text))
    ends = [step.start() for step in steps[1:]] + [len(text)]
    operators: dict[int, Operator] = {}
    for step, end in zip(steps, ends, strict=True):
        state = None if len(operators) >= MOST_OPERATORS else _find_state(text, step.start(), end)
        if state and not step[2].endswith("Restore"):
            operators.setdefault(state.number, Operator(step[2], _list_columns(text[step.start() : end])))
    place = "" if first.place == _NO_PLACE else first.place.rstrip("/").removesuffix("/state")
    return PlanFacts(
        run_of_batch(description) or first.run_id,
        place,
        tuple(operators[number] for number in sorted(operators)),
    )


def run_of_batch(description: str) -> str:
    """The id of the run whose batch an execution is, by its description; "" where it is none."""
    run = _RUN.search(description[:MOST_DESCRIPTION])
    return run[1] if run else ""


@dataclass(frozen=True)
class _State:
    place: str
    run_id: str
    number: int


def _find_state(text: str, begin: int, end: int) -> _State | None:
    """What a part of a plan says first of state. Each place in the text is looked at once: a plan is other people's."""
    while (at := text.find(_STATE, begin, end)) >= 0:
        begin = at + len(_STATE)
        line_end = text.find("\n", begin, min(end, begin + LONGEST_PLACE + 100))
        line = text[begin : line_end if line_end >= 0 else min(end, begin + LONGEST_PLACE + 100)]
        again = line.find(_STATE)
        match = _OF_STATE.search(line if again < 0 else line[:again])
        if match and 0 < match.start() <= LONGEST_PLACE:
            return _State(line[: match.start()], match[1], int(match[2]))
    return None


def _list_columns(part: str) -> tuple[str, ...]:
    match = _COLUMNS.search(part)
    names = [_ID.sub("", name).strip() for name in match[1].split(",")] if match else []
    return tuple(name for name in names if name)[:100]
