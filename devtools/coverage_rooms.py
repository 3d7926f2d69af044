"""Sums coverage by room: `python -m devtools.coverage_rooms FILE`, where FILE is what `coverage json` wrote."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RoomCoverage:
    """What the tests reached of one room: numbers of statements and of branches."""

    statements: int = 0
    statements_reached: int = 0
    branches: int = 0
    branches_reached: int = 0

    def __add__(self, other: "RoomCoverage") -> "RoomCoverage":
        return RoomCoverage(
            self.statements + other.statements,
            self.statements_reached + other.statements_reached,
            self.branches + other.branches,
            self.branches_reached + other.branches_reached,
        )


def room_of(path: str) -> str:
    """`recovery/checkpoints/state/sst.py` is in `recovery/checkpoints`; `console/urls.py` is in `console`."""
    parts = Path(path).parts
    return "/".join(parts[: min(2, len(parts) - 1)])


def sum_by_room(report: Mapping[str, Any]) -> dict[str, RoomCoverage]:
    """`{room: its coverage}` of a report in coverage's JSON format 3."""
    rooms: dict[str, RoomCoverage] = {}
    for path, file in report["files"].items():
        counts = file["summary"]
        rooms[room_of(path)] = rooms.get(room_of(path), RoomCoverage()) + RoomCoverage(
            counts["num_statements"],
            counts["covered_lines"],
            counts["num_branches"],
            counts["covered_branches"],
        )
    return rooms


def write_table(rooms: Mapping[str, RoomCoverage]) -> str:
    """One line a room, in percent; "-" where there is nothing to reach."""

    def percent(reached: int, of: int) -> str:
        return f"{100 * reached / of:6.1f} %" if of else "       -"

    total = sum(rooms.values(), RoomCoverage())
    lines = [f"{'room':28} {'statements':>10}  reached   branches  reached"]
    for name, room in [*sorted(rooms.items()), ("all", total)]:
        statements = f"{room.statements:10} {percent(room.statements_reached, room.statements)}"
        lines.append(
            f"{name:28} {statements} {room.branches:10} {percent(room.branches_reached, room.branches)}"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    sys.stdout.write(write_table(sum_by_room(json.loads(Path(arguments[0]).read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
