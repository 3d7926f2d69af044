"""Plain programs that nobody of Reprise wrote: broken, adopted, and recovered by commands, beside a batch computation.

A recovery that is proven has every row that the batch computation has, each as often; else its forecast is the
difference; else it is refused or ends without proof.
"""

import json
import shlex
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import requests

from recovery.streams.client import START_NOW
from tests.kafka import KafkaBroker
from tests.plain.cells import (
    AFTER,
    BEFORE,
    BY_BOTH,
    BY_ID,
    CELLS,
    IN_ZONE,
    Cell,
    all_rows,
    kept_then_all,
    row,
)
from tests.plain.programs import PROGRAMS
from tests.plain.world import Row, World, answered
from tests.stack import Stack, wait_for

pytestmark = pytest.mark.spark


def ids(cell: Cell) -> str:
    return f"{cell.program}, {cell.name}, {cell.strategy}"


def world_of(cell: Cell, base: Path, kafka: KafkaBroker | None) -> World:
    """The program has run well, was broken, and has failed."""
    world = World(base / "w", PROGRAMS[cell.program], kafka, time_zone=cell.time_zone)
    world.write(cell.good)
    for rows in BEFORE:
        world.arrive(rows)
    done = world.run()
    assert done.returncode == 0, done.stderr[-3000:]
    world.write(cell.bad)
    for rows in cell.after:
        world.arrive(rows)
    if cell.damage is not None:
        cell.damage(world)
    if not cell.is_quiet:
        done = world.run()
        assert done.returncode != 0, "the incident is none"
    return world


def more_words(cell: Cell, world: World, base: Path) -> list[str]:
    """The old code, where it is put back: from version control."""
    if cell.strategy != "revert":
        return []
    old = base / "old"
    for name, text in world.program.files.items():
        place = old / Path(name).relative_to(Path(world.program.main).parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("@STEP@", cell.good))
    return ["--code", str(old)]


def is_held(amount: dict[str, Any], real: int) -> bool:
    """Is a forecast true of what came? `rows` None: nothing is claimed."""
    if amount["rows"] is None:
        return True
    if amount["exact"]:
        return bool(amount["rows"] == real)
    return bool(real <= amount["rows"]) if amount.get("bound") == "at_most" else True


@pytest.mark.parametrize("cell", CELLS, ids=ids)
def test_a_plain_program_is_recovered_to_what_a_batch_computes_or_says_the_difference(
    stack: Stack, kafka: KafkaBroker, cell: Cell, tmp_path: Path
) -> None:
    world = world_of(cell, tmp_path, kafka)
    code, stream = answered(stack, *world.adopt_words(is_named=cell.is_named))
    assert code == 0, stream
    before = world.rows()
    _, diagnosis = answered(stack, "diagnose", stream["pipeline"])
    code, answer = answered(
        stack, "recover", stream["pipeline"], "--flow", stream["flow"], "--strategy", cell.strategy,
        *cell.more, *more_words(cell, world, tmp_path),
    )  # fmt: skip
    right, held = cell.right(world), world.rows()
    says = json.dumps({"answer": answer, "diagnosis": diagnosis.get("diagnosis", diagnosis)}, indent=1)[:9000]
    lost, doubled = right - held, held - right
    if "error" in answer:
        assert answer["error"]["code"] == cell.ends, says
        assert held == before, "a refusal changes nothing"
        return
    is_true = _is_true(cell, answer, before, lost, doubled)
    if answer["state"] == "succeeded":
        assert is_true, f"PROVEN OVER A WRONG TABLE: -{lost} +{doubled}\n{says}"
    assert answer["state"] == {"proven": "succeeded"}.get(cell.ends, cell.ends), says
    assert is_true, f"-{lost} +{doubled}\n{says}"


def _is_true(
    cell: Cell, answer: dict[str, Any], before: Counter[Row], lost: Counter[Row], doubled: Counter[Row]
) -> bool:
    """Are both forecast and measured numbers those of the table? Doubled are also rows that repeat a key by their
    input, and measured also those of before."""
    measured = answer.get("measured") or {}
    earlier = measured.get("doubled_before") or 0
    if earlier and earlier != before.total() - len({dict(row)["id"] for row in before}):
        return False
    for which, real, more in (
        ("lost", lost.total(), 0),
        ("doubled", doubled.total() + cell.repeats, earlier),
    ):
        if not is_held(answer["forecast"][which], real):
            return False
        if isinstance(measured.get(which), int) and measured[which] != real + more:
            return False
    return True


def cell_of(program: str, good: str, bad: str) -> Cell:
    return Cell("its own test", program, good, bad, "continue")


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("program", ["files to parquet", "files to delta"])
def test_a_recovery_whose_start_fails_is_rolled_back_to_the_byte(
    stack: Stack, tmp_path: Path, program: str
) -> None:
    world = world_of(cell_of(program, BY_ID, ""), tmp_path, None)
    before = tree(world.checkpoint)
    _, stream = answered(stack, *world.adopt_words(start="false"))
    code, answer = answered(
        stack, "recover", stream["pipeline"], "--flow", stream["flow"], "--strategy", "continue"
    )
    assert code == 1, answer
    assert tree(world.checkpoint) != before
    code, answer = answered(stack, "rollback", answer["recovery"])
    assert (code, answer.get("state")) == (0, "rolled_back"), answer
    assert tree(world.checkpoint) == before


def test_a_program_whose_first_batch_crashed_begins_again_with_other_code(
    stack: Stack, tmp_path: Path
) -> None:
    """No update of it ever ended well, so no old code is known; the new code keeps other state."""
    world = World(tmp_path / "w", PROGRAMS["files to parquet"])
    fails_at_5 = """.withColumn("v", F.expr("if(id = 5, cast(raise_error('no') as string), v)"))"""
    world.write(f"{BY_ID}{fails_at_5}")
    for rows in (*BEFORE, *AFTER):
        world.arrive(rows)
    assert world.run().returncode != 0
    assert sorted(tree(world.checkpoint).keys() & {"offsets/0", "commits/0"}) == ["offsets/0"]
    world.write(BY_BOTH)
    _, stream = answered(stack, *world.adopt_words())
    code, answer = answered(stack, "recover", stream["pipeline"], "--flow", stream["flow"])
    right = {row(id=r["id"], v=r["v"].upper()) for held in world.arrived for r in held}
    assert world.rows() == Counter(right)
    # where it was adopted there was no file yet that shows how Spark reads the table
    assert (code, answer.get("state")) == (1, "needs_attention"), json.dumps(answer, indent=1)
    assert [c["code"] for c in answer["verification"] if c["ok"] is not True] == ["EVERY_ROW_ONCE"]


def test_a_start_in_another_time_zone_than_the_sealed_one_is_not_proven(stack: Stack, tmp_path: Path) -> None:
    cell = replace(cell_of("files to parquet", f"{BY_ID}{IN_ZONE}", IN_ZONE), time_zone="Asia/Tokyo")
    world = world_of(cell, tmp_path, None)
    _, stream = answered(stack, *world.adopt_words())
    _, plan = answered(stack, "plan", stream["pipeline"], "--flow", stream["flow"], "--strategy", "continue")
    world.time_zone = "America/New_York"
    world.settle()
    code, answer = answered(stack, "execute", plan["recovery"], "--wait")
    assert (code, answer["state"]) == (1, "needs_attention"), json.dumps(answer, indent=1)
    assert answer["verification"] == []
    (problem,) = [step["problem"] for step in answer["steps"] if step.get("problem")]
    assert "session settings" in problem


def move_input(world: World) -> None:
    """The team moved the folder, and changed the path in the code."""
    (world.base / "in").rename(world.base / "landing")
    world.main.write_text(world.main.read_text().replace('/in"', '/landing"'))


def test_a_folder_that_was_moved_is_not_forecast_as_new_input(stack: Stack, tmp_path: Path) -> None:
    """Spark knows files by their paths: it reads all of them once more, whether or not that was accepted."""
    moved = replace(cell_of("files to parquet", "", ""), is_quiet=True, damage=move_input)
    world = world_of(moved, tmp_path, None)
    _, stream = answered(stack, *world.adopt_words())
    words = (
        "recover",
        stream["pipeline"],
        "--flow",
        stream["flow"],
        "--strategy",
        "continue",
        "--confirm",
        "0->",
    )
    start = ("--position", "0=earliest", "--accept-loss")
    _, refusal = answered(stack, *words, *start)
    assert refusal["error"]["flags"] == ["--accept-repeats"], refusal
    _, answer = answered(stack, *words, *start, "--accept-repeats")
    doubled = world.rows() - all_rows(world)
    assert doubled.total() == sum(map(len, BEFORE)), answer
    assert not answer["forecast"]["doubled"]["exact"]
    # the new rows equal earlier ones: which of both are the repeats is not known
    measured = answer["measured"]
    assert (measured["doubled"], measured["doubled_before"]) == (doubled.total(), None), answer


def test_a_recovery_that_has_written_is_not_rolled_back(stack: Stack, tmp_path: Path) -> None:
    """Its new batches are in the table: the old checkpoint would write them again."""
    world = world_of(cell_of("files to delta", BY_ID, ""), tmp_path, None)
    _, stream = answered(stack, *world.adopt_words())
    code, answer = answered(
        stack, "recover", stream["pipeline"], "--flow", stream["flow"], "--strategy", "continue"
    )
    assert (code, answer.get("state")) == (0, "succeeded"), answer
    assert [answer["measured"][which] for which in ("lost", "doubled")] == [0, 0], answer["measured"]
    before, held = tree(world.checkpoint), world.rows()
    code, refusal = answered(stack, "rollback", answer["recovery"])
    assert (code, set(refusal)) == (1, {"error"}), refusal
    assert (tree(world.checkpoint), world.rows()) == (before, held)


def test_a_person_starts_a_stream_and_the_run_goes_on_when_its_event_log_shows_it(
    stack: Stack, tmp_path: Path
) -> None:
    world = world_of(cell_of("files to delta", BY_ID, ""), tmp_path, None)
    code, stream = answered(stack, *world.adopt_words(by_hand=True))
    assert (code, stream["runner"]) == (0, "by-hand"), stream
    _, plan = answered(stack, "plan", stream["pipeline"], "--flow", stream["flow"], "--strategy", "continue")
    person = Person(stack, plan["recovery"], world)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(answered, stack, "execute", plan["recovery"], "--wait")
        person.start_when_asked("rerun")
        person.start_when_asked("verify")
        code, answer = run.result()
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert world.rows() == kept_then_all(world)


@dataclass(frozen=True)
class Person:
    """Starts the program by hand whenever a step asks for it."""

    stack: Stack
    recovery: str
    world: World

    def start_when_asked(self, step: str) -> None:
        wait_for(lambda: self._is_asked(step), f"step {step} asks a person", 400)
        done = self.world.run()
        assert done.returncode == 0, done.stderr[-2000:]

    def _is_asked(self, kind: str) -> bool:
        headers = {"Authorization": f"Bearer {self.stack.demo['users']['admin']['token']}"}
        address = f"{self.stack.demo['console_url']}/api/v1/recoveries/{self.recovery}"
        answer = requests.get(address, headers=headers, timeout=60).json()
        steps = [s for s in answer["steps"] if s["kind"] == kind and s["state"] == "running"]
        return any(line.startswith(START_NOW) for s in steps for _, line in s["log"])


STRANGER = """\
import pathlib, shutil, sys
checkpoint = pathlib.Path(sys.argv[1])
if list(checkpoint.parent.glob(".reprise-*-before")):
    newest = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    if not (checkpoint.parent / "came").exists():
        for name in ("offsets", "commits"):
            shutil.copy(checkpoint / name / str(newest), checkpoint / name / str(newest + 1))
        (checkpoint.parent / "came").touch()
sys.exit(1)
"""


def test_a_batch_of_somebody_else_during_a_recovery_stops_it(stack: Stack, tmp_path: Path) -> None:
    """It comes right after the new checkpoint is in place, and its program has ended when it is asked for."""
    world = world_of(cell_of("files to parquet", BY_ID, ""), tmp_path, None)
    (tmp_path / "running.py").write_text(STRANGER)
    running = shlex.join([sys.executable, str(tmp_path / "running.py"), str(world.checkpoint)])
    _, stream = answered(stack, *world.adopt_words(running=running))
    held = world.rows()
    code, answer = answered(
        stack, "recover", stream["pipeline"], "--flow", stream["flow"], "--strategy", "continue"
    )
    assert code == 1, answer
    assert (world.base / "came").exists()
    assert "batch_by_others" in json.dumps(answer) or "Something else has started" in json.dumps(answer)
    assert world.rows() == held


def test_a_stream_without_an_end_is_recovered_and_runs_on(stack: Stack, tmp_path: Path) -> None:
    world = World(tmp_path / "w", PROGRAMS["endless"])
    world.write(BY_ID)
    for number, rows in enumerate(BEFORE):
        world.arrive(rows)
        world.run_until(number)
    world.write("")
    for rows in AFTER:
        world.arrive(rows)
    assert world.run().returncode != 0
    _, stream = answered(stack, *world.adopt_words())
    try:
        code, answer = answered(
            stack, "recover", stream["pipeline"], "--flow", stream["flow"], "--strategy", "continue"
        )
        assert (code, answer.get("state")) == (0, "succeeded"), answer
        assert world.rows() == kept_then_all(world)
        assert subprocess.run(["pgrep", "-f", str(world.main)], check=False).returncode == 0
    finally:
        subprocess.run(["pkill", "-f", str(world.main)], check=False)
