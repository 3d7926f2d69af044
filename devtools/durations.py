"""Sums what tests took, by module: `python -m devtools.durations FILE… > table.md`.

The files are those that `bin/test` leaves in `.venv/seconds`, one JSON object a test (tests/lanes.py).
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SHOWN = 40  # modules; the others are summed in one row
HEAD = "| module | tests | set-up s | call s | tear-down s | of these on the test's own CPU s | slowest test s |\n"


@dataclass
class ModuleSeconds:
    """What the tests of one module took together, in seconds."""

    tests: int = 0
    setup: float = 0.0
    call: float = 0.0
    teardown: float = 0.0
    cpu: float = 0.0
    slowest: float = 0.0

    @property
    def total(self) -> float:
        return self.setup + self.call + self.teardown

    def add(self, other: "ModuleSeconds") -> None:
        """Add another module's seconds to these."""
        for name in ("tests", "setup", "call", "teardown", "cpu"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest = max(self.slowest, other.slowest)


def sum_by_module(lines: Iterable[str]) -> dict[str, ModuleSeconds]:
    """`{module path: its seconds}` of the JSON lines that a run left."""
    modules: dict[str, ModuleSeconds] = defaultdict(ModuleSeconds)
    for line in lines:
        seconds = json.loads(line)
        setup, call, teardown = seconds["setup"], seconds["call"], seconds["teardown"]
        modules[seconds["nodeid"].split("::")[0]].add(
            ModuleSeconds(1, setup, call, teardown, seconds["cpu"], setup + call + teardown)
        )
    return dict(modules)


def write_table(modules: dict[str, ModuleSeconds], shown: int = SHOWN) -> str:
    """A Markdown table, the slowest module first."""
    ordered = sorted(modules.items(), key=lambda pair: -pair[1].total)
    rows = [(f"`{name}`", seconds) for name, seconds in ordered[:shown]]
    for title, group in ((f"{len(ordered) - shown} other modules", ordered[shown:]), ("all", ordered)):
        together = ModuleSeconds()
        for _, seconds in group:
            together.add(seconds)
        if group:
            rows.append((title, together))
    lines = [
        f"| {name} | {s.tests} | {s.setup:.0f} | {s.call:.0f} | {s.teardown:.0f} | {s.cpu:.0f} | {s.slowest:.1f} |\n"
        for name, s in rows
    ]
    return HEAD + "|---" * 7 + "|\n" + "".join(lines)


def main(arguments: Sequence[str]) -> int:
    lines = [line for name in arguments for line in Path(name).read_text().splitlines()]
    sys.stdout.write(write_table(sum_by_module(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
