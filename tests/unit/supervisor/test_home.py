"""The folder of an instance: private, held by one, emptied only of what is ours."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from console.supervisor import broker, home, processes
from console.supervisor.bootstrap import ROOT, CannotStart
from tests.refusals import refused


def test_a_home_is_made_private(tmp_path: Path) -> None:
    made = tmp_path / "a" / "home"

    home.make_home(made)

    assert made.stat().st_mode & 0o777 == 0o700
    assert list(made.iterdir()) == []


def test_a_home_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with refused("home_unwritable", CannotStart, names=("REPRISE_HOME",)):
        home.make_home(tmp_path / "file" / "home")


def test_a_second_holder_is_told_who_has_the_home(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text('{"console_url": "http://127.0.0.1:8000"}')

    with (
        home.claim_home(tmp_path),
        refused("already_runs", CannotStart, names=(tmp_path, "http://127.0.0.1:8000")),
    ):
        home.claim_home(tmp_path).__enter__()


def test_a_holder_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from console.supervisor import home; "
        "home.claim_home(Path(sys.argv[1])).__enter__(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False)

    with home.claim_home(tmp_path):
        assert (tmp_path / home.LOCK).exists()


def test_a_reset_deletes_what_an_instance_wrote_and_leaves_the_rest(tmp_path: Path) -> None:
    for name in (
        "instance.env",
        "reprise.sqlite3",
        "reprise.sqlite3-wal",
        "people.json",
        home.LOCK,
        "mine.txt",
    ):
        (tmp_path / name).write_text("x")
    (tmp_path / "warehouse" / "crm.db").mkdir(parents=True)

    assert home.reset_home(tmp_path) == ["mine.txt"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.txt", home.LOCK]


def documented() -> list[str]:
    """Every file and folder of a home that docs/wiring.md lists, the outermost one of its path."""
    page = (ROOT / "docs" / "wiring.md").read_text()
    table = page.partition("## Files of a running instance")[2].partition("\n\n")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return sorted(
        {re.sub("<[^>]*>", "1", name) for cell in first_cells for name in re.findall("`([^`]+)`", cell)}
    )


@pytest.mark.parametrize("name", documented())
def test_a_reset_knows_every_file_that_the_documentation_lists(tmp_path: Path, name: str) -> None:
    top, below, _ = name.partition("/")
    (tmp_path / top).mkdir() if below else (tmp_path / top).write_text("x")

    assert home.is_known(tmp_path / top)


def test_a_reset_never_touches_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "thesis.txt").write_text("years of work")

    with refused("not_ours", CannotStart, names=("thesis.txt",)):
        home.reset_home(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["storage", "thesis.txt"]


def test_a_reset_does_not_follow_a_link_out_of_the_home(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    inside = tmp_path / "home"
    inside.mkdir()
    (inside / "instance.env").write_text("")
    (inside / "warehouse").symlink_to(outside)

    assert home.reset_home(inside) == ["warehouse"]
    assert (outside / "kept").exists()


def test_what_a_killed_run_left_is_ended_and_swept(tmp_path: Path) -> None:
    instance = "0123456789abcdef"
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        env={**os.environ, processes.MARK: f"{instance}:worker"},
    )
    (tmp_path / "supervisor.json").write_text(f'{{"instance": "{instance}"}}')
    for name in ("demo.json", "broker.sock", "pipelines.json"):
        (tmp_path / name).write_text("{}")

    assert home.sweep_leftovers(tmp_path) == 1
    assert left.wait() == -15
    assert [p.name for p in tmp_path.iterdir()] == ["supervisor.json"]


@pytest.mark.parametrize("text", ["", "{ half", '{"instance": ""}', '{"instance": "a"}'])
def test_a_damaged_record_of_the_last_run_ends_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "supervisor.json").write_text(text)

    assert home.sweep_leftovers(tmp_path) == 0


def test_private_files_are_replaced_whole_and_read_by_their_owner_only(tmp_path: Path) -> None:
    home.write_env(
        tmp_path / "instance.env", {"REPRISE_SECRET_KEY": "a=b'", "REPRISE_PUBLIC_URL": "http://x"}
    )
    home.write_private(tmp_path / "demo.json", "{}")

    assert home.read_env(tmp_path / "instance.env")["REPRISE_PUBLIC_URL"] == "http://x"
    assert [p.stat().st_mode & 0o777 for p in sorted(tmp_path.iterdir())] == [0o600, 0o600]


def test_a_home_with_a_long_path_gets_its_socket_in_a_private_short_folder(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120)

    place = broker.socket_path(long)

    assert len(str(place)) < home.SOCKET_LIMIT
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert broker.socket_path(long) == place
    place.parent.rmdir()


def test_a_short_home_keeps_its_socket() -> None:
    assert broker.socket_path(Path("/srv/reprise")) == Path("/srv/reprise/broker.sock")
