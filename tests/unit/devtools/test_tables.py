"""The tables of what tests took and reached."""

import json

from devtools import coverage_rooms, durations
from devtools.coverage_rooms import RoomCoverage


def seconds(nodeid: str, **more: float) -> str:
    return json.dumps(
        {"nodeid": nodeid, "setup": 0, "call": 0, "teardown": 0, "cpu": 0, "outcome": "passed"} | more
    )


def test_seconds_are_summed_by_module_and_the_slowest_comes_first() -> None:
    lines = [
        seconds("tests/a.py::test_x[1]", call=1, cpu=0.5),
        seconds("tests/b.py::test_y", setup=30, call=2),
        seconds("tests/a.py::test_x[2]", call=4, teardown=1),
    ]
    modules = durations.sum_by_module(lines)

    assert modules["tests/a.py"] == durations.ModuleSeconds(2, 0, 5, 1, 0.5, 5)
    rows = durations.write_table(modules, shown=1).splitlines()[2:]
    assert [[cell.strip() for cell in row.split("|")][1:5] for row in rows] == [
        ["`tests/b.py`", "1", "30", "2"],
        ["1 other modules", "2", "0", "5"],
        ["all", "3", "30", "7"],
    ]


def test_coverage_is_summed_by_room() -> None:
    def file(reached: int) -> dict[str, dict[str, int]]:
        return {
            "summary": {
                "num_statements": 10,
                "covered_lines": reached,
                "num_branches": 4,
                "covered_branches": 1,
            }
        }

    report = {
        "files": {
            "recovery/checkpoints/seed.py": file(8),
            "recovery/checkpoints/state/sst.py": file(6),
            "console/urls.py": file(10),
        }
    }

    assert coverage_rooms.sum_by_room(report) == {
        "recovery/checkpoints": RoomCoverage(20, 14, 8, 2),
        "console": RoomCoverage(10, 10, 4, 1),
    }
    assert "  70.0 %" in coverage_rooms.write_table(coverage_rooms.sum_by_room(report))
