"""The demo's plain stream without Spark: its place, and the script by which its scheduler starts and stops it."""

import subprocess
import sys
from pathlib import Path

import pytest

from console.incident import orders_making, orders_program
from console.incident.orders_making import OrdersIncident, make_orders, orders_folder
from console.supervisor import options
from recovery.errors import Refused

SLEEPER = "import time\ntime.sleep(60)\n"
ENDED = "raise SystemExit(0)\n"


def act(folder: Path, name: str) -> int:
    words = [sys.executable, str(folder / "job.py"), name]
    return subprocess.run(words, timeout=60, check=False).returncode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(orders_program.write_job("/no/java"))
    return tmp_path


def test_a_program_that_goes_on_runs_from_start_to_stop(folder: Path) -> None:
    (folder / "orders.py").write_text(SLEEPER)
    assert act(folder, "running") == 1
    assert act(folder, "start") == 0
    pid = (folder / "orders.pid").read_text()
    assert act(folder, "start") == 0
    assert (folder / "orders.pid").read_text() == pid, "a second start starts nothing"
    assert act(folder, "running") == 0
    assert act(folder, "stop") == 0
    assert act(folder, "running") == 1


def test_what_does_not_run_is_stopped_already(folder: Path) -> None:
    (folder / "orders.pid").write_text("1")
    assert [act(folder, "running"), act(folder, "stop")] == [1, 0]


def test_the_step_is_all_that_differs() -> None:
    with_it, without = orders_program.write_program(keeps=True), orders_program.write_program(keeps=False)
    assert with_it.replace(orders_program.KEEP, "") == without


def test_each_home_has_a_place_of_its_own_outside_of_it(tmp_path: Path) -> None:
    places = [orders_folder(tmp_path / name) for name in ("a", "b")]
    assert places[0] != places[1]
    assert places == [orders_folder(tmp_path / name) for name in ("a", "b")]


def test_somebody_elses_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "incident.json").write_text("{}")
    (tmp_path / "place").symlink_to(tmp_path / "theirs")
    with pytest.raises(Refused):
        make_orders(folder=tmp_path / "place")
    assert [p.name for p in (tmp_path / "theirs").iterdir()] == ["incident.json"]


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "incident.json").write_text("{}")
    tmp_path.chmod(0o777)
    with pytest.raises(Refused):
        make_orders(folder=tmp_path)


def test_what_is_made_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "incident.json").write_text("{}")
    monkeypatch.setattr(orders_making, "find_java", lambda folder: pytest.fail("nothing is run"))
    assert make_orders(folder=tmp_path) == OrdersIncident(str(tmp_path))


def test_the_plain_stream_is_made_when_it_is_asked_for() -> None:
    assert [options.parse_options(words).plain for words in ([], ["--plain"])] == [False, True]
