"""What the workers of a test run share: started once, ended with the run, however that ends."""

import json
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from console.supervisor import processes
from tests import shared
from tests.stack import ROOT, wait_for
from tests.unit.kept_thing import config

HERE = "tests.unit.kept_thing"
# The first process of a run, which goes on until it is killed; it says who keeps the thing, and where.
RUN = f"""
import sys, time
from tests import shared
from {HERE} import config
run = config()
shared.THINGS["thing"] = "{HERE}:thing"
shared.begin(run)
print(shared.reach(run, "thing")["pid"], run.stash[shared.FOLDER], flush=True)
time.sleep(600)
"""


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THING_BOOK", str(tmp_path / "book"))
    monkeypatch.setitem(shared.THINGS, "thing", f"{HERE}:thing")
    monkeypatch.setitem(shared.THINGS, "broken", f"{HERE}:broken")
    return tmp_path / "book"


def test_workers_that_come_at_once_reach_one_thing_which_is_gone_when_the_run_has_ended(book: Path) -> None:
    run = config()
    shared.begin(run)
    workers = [config(run.stash[shared.FOLDER]) for _ in range(3)]
    pids: list[int] = []

    def work(worker: Any) -> None:
        shared.begin(worker)
        pids.append(shared.reach(worker, "thing")["pid"])
        shared.finish(worker)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(pids), len(set(pids)), book.read_text()) == (3, 1, "start\n")

    shared.finish(run)

    assert book.read_text() == "start\nend\n"
    assert not run.stash[shared.FOLDER].exists()


def test_a_run_that_is_killed_leaves_nothing(book: Path) -> None:
    run = subprocess.Popen([sys.executable, "-c", RUN], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout
    with run.stdout:
        keeper, folder = run.stdout.readline().split()
    assert book.read_text() == "start\n"
    run.kill()
    run.wait()

    wait_for(lambda: not processes.is_alive(int(keeper)), "the keeper's end", 30)

    assert book.read_text() == "start\nend\n"
    assert not Path(folder).exists()


def test_a_worker_that_was_killed_while_it_waited_is_followed_by_one_that_reaches_the_same(
    book: Path,
) -> None:
    run = config()
    shared.begin(run)
    folder = run.stash[shared.FOLDER]
    command = [sys.executable, "-m", "tests.shared", "thing", shared.THINGS["thing"], str(folder)]
    left = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert left.stdout
    left.stdout.close()  # its worker is gone
    wait_for((folder / "thing.alive").exists, "its keeper")

    assert shared.reach(run, "thing")["pid"] == left.pid

    shared.finish(run)
    assert left.wait() == 0
    assert book.read_text() == "start\nend\n"


def test_what_does_not_start_says_so_to_each_worker(book: Path) -> None:
    run = config()
    shared.begin(run)
    try:
        for _ in range(2):
            with pytest.raises(AssertionError, match="no room for it"):
                shared.reach(run, "broken")
        problem = json.loads((run.stash[shared.FOLDER] / "broken.json").read_text())["problem"]
        assert problem.startswith("broken did not start")
    finally:
        shared.finish(run)


def test_no_two_tests_of_the_instance_make_a_pipeline_of_one_name() -> None:
    """They share one instance: the second would meet the first one's topic, table and checkpoint."""
    made = re.compile(r'\b(?:stack\.incident\(|stack\.clicks\(|failed\(stack, )"(\w+)"')
    folders = (ROOT / "tests" / folder for folder in ("integration", "browser", "contract"))
    files = (file for folder in folders for file in sorted(folder.glob("test_*.py")))
    names = Counter(
        name for file in files for name in set(made.findall(file.read_text()))
    )  # one may make it again
    assert {name: times for name, times in names.items() if times > 1} == {}
