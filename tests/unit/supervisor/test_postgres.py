"""The tests' PostgreSQL server: real, private, gone with whoever started it, and chosen by one option."""

import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest

from console import settings
from console.supervisor import postgres, tools
from console.supervisor.bootstrap import CannotStart
from tests.refusals import refused
from tests.stack import wait_for

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def none_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(postgres.VARIABLE, raising=False)


def test_the_server_answers_on_a_private_socket_and_leaves_nothing(none_given: None) -> None:
    with postgres.running_server(Path(sys.executable)) as url:
        folder = Path(dict(parse_qsl(urlsplit(url).query))["host"])
        mode = folder.stat().st_mode & 0o777
        with psycopg.connect(host=str(folder), user="postgres", dbname="postgres") as connection:
            row = connection.execute("SHOW server_version_num").fetchone()
            listens = connection.execute("SHOW listen_addresses").fetchone()

    assert row is not None
    assert int(row[0]) >= 150000
    assert listens == ("",)
    assert mode == 0o700
    assert not folder.exists()


def test_a_killed_test_run_leaves_no_server_behind(none_given: None, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from console.supervisor import postgres\n"
        "with postgres.running_server(Path(sys.executable)) as url: print(url, flush=True); time.sleep(600)"
    )
    run = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip().partition("host=")[2])
    server = int((folder / "data" / "postmaster.pid").read_text().split()[0])

    run.kill()
    run.communicate()

    wait_for(lambda: not Path(f"/proc/{server}").exists(), "the server's end", 30)
    shutil.rmtree(folder)


def test_a_server_that_is_named_is_used_and_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(postgres.VARIABLE, "postgresql://tester@elsewhere/any")

    with postgres.running_server(Path("/nowhere/bin/python")) as url:
        assert url == "postgresql://tester@elsewhere/any"


def test_what_others_may_not_enter_is_not_opened_but_copied(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "inside").mkdir(parents=True)
    private.chmod(0o700)
    for name in (postgres.PACKAGE, f"{postgres.PACKAGE}.libs"):
        (private / name).mkdir()
        (private / name / "file").write_text(name)

    assert not postgres.all_may_enter(private / "inside")
    copied = postgres.copy_programs(private, tmp_path)

    assert (copied / postgres.PACKAGE / "file").read_text() == postgres.PACKAGE
    assert private.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("arguments", "database", "rest"),
    [
        ([], "sqlite", []),
        (["-k", "x"], "sqlite", ["-k", "x"]),
        (["tests/unit", "--database", "postgresql", "-x"], "postgresql", ["tests/unit", "-x"]),
        (["--database", "sqlite"], "sqlite", []),
    ],
)
def test_the_database_is_chosen_by_one_option(arguments: list[str], database: str, rest: list[str]) -> None:
    assert tools.tested_database(arguments) == (database, rest)


@pytest.mark.parametrize("arguments", [["--database"], ["--database", "oracle"]])
def test_an_unknown_database_is_refused(arguments: list[str]) -> None:
    with refused("unknown_database", CannotStart):
        tools.tested_database(arguments)


def test_a_database_url_may_name_a_socket_and_how_to_speak_tls() -> None:
    made = settings.database_entry("postgresql://re%40prise:a%2Fb@db:5433/reprise?sslmode=verify-full", "x")
    socket = settings.database_entry("postgresql://reprise@/reprise?host=/run/postgresql", "x")

    assert (made["USER"], made["PASSWORD"], made["HOST"], made["PORT"]) == ("re@prise", "a/b", "db", 5433)
    assert made["OPTIONS"] == {"sslmode": "verify-full", "connect_timeout": "5"}
    assert socket["HOST"] == "/run/postgresql"
