"""A command of the server is the command that a Python of its own runs: same output, same exit code, own variables."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import command_server
from tests.command_server import CommandServer, Request
from tests.stack import clean_environment

NO_TABLES, NO_TOKEN = "no_tables", "wrong_use"
ENDS = """
import atexit, os, sys, threading, time
atexit.register(lambda: print("at the end"))
threading.Thread(target=lambda: (time.sleep(0.2), print("from a thread"))).start()
print(sys.argv[1], os.getcwd(), sorted(k for k in os.environ if k.startswith(("REPRISE_", "DJANGO_", "OPENBLAS_"))))
sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: its settings are prepared once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    return clean_environment(home)


@pytest.fixture
def server() -> Iterator[CommandServer]:
    made = CommandServer()
    yield made
    made.close()


def shell(code: str) -> list[str]:
    return ["shell", "--no-imports", "-c", code]


def code_of(environment: dict[str, str], **more: str) -> str:
    """The code of the refusal of `flows`."""
    done = command_server.run(["flows", "--json"], {**environment, **more})
    code: str = json.loads(done.stdout)["error"]["code"]
    return code


@pytest.mark.parametrize(
    ("arguments", "more", "code"),
    [
        (["flows"], {"REPRISE_TOKEN": "rp_x"}, 2),
        (["audit", "burn", "--json"], {}, 2),
        (shell(ENDS + "sys.exit(3)"), {"REPRISE_TOKEN": "rp_x"}, 3),
        (shell("1 / 0"), {}, 1),
        (shell("import os; os.kill(os.getpid(), 9)"), {}, -9),
        (["flows"], {"REPRISE_DATABASE_TIMEOUT": "soon"}, 1),
    ],
    ids=["no tables", "wrong use", "exit", "fault", "killed", "settings"],
)
def test_a_command_is_what_a_python_of_its_own_makes_of_it(
    environment: dict[str, str], arguments: list[str], more: dict[str, str], code: int
) -> None:
    alone = command_server.run_alone(arguments, {**environment, **more})
    first, prepared = (command_server.run(arguments, {**environment, **more}) for _ in range(2))
    assert alone.returncode == code
    for done in (first, prepared):
        assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_the_variables_of_a_call_are_its_own(environment: dict[str, str]) -> None:
    for _ in range(2):
        assert code_of(environment, REPRISE_TOKEN="rp_x") == NO_TABLES
        assert code_of(environment) == NO_TOKEN


def test_an_end_with_a_sentence_is_exit_1(environment: dict[str, str]) -> None:
    done = command_server.run(shell("import sys; sys.exit('a sentence')"), environment)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "a sentence\n")


def test_settings_are_read_again_where_a_file_of_theirs_has_changed(
    environment: dict[str, str], home: Path
) -> None:
    says = shell(
        "from django.conf import settings as s; print(s.REPRISE_PUBLIC_URL, s.REPRISE_METRICS_TOKEN)"
    )
    variable = {"REPRISE_METRICS_TOKEN_FILE": str(home / "secret")}
    for url, secret in (("http://one", "a"), ("http://two", "a"), ("http://two", "b")):
        (home / "instance.env").write_text(f"REPRISE_PUBLIC_URL={url}\n")
        (home / "secret").write_text(secret)
        for _ in range(2):
            assert command_server.run(says, {**environment, **variable}).stdout == f"{url} {secret}\n"
    (home / "instance.env").unlink()


def test_a_variable_that_python_reads_as_it_starts_takes_effect(environment: dict[str, str]) -> None:
    code = shell("import sys; print(sys.flags.utf8_mode, sys.flags.dev_mode)")
    assert command_server.run(code, environment).stdout == "0 False\n"
    assert command_server.run(code, {**environment, "PYTHONUTF8": "1"}).stdout == "1 False\n"


def test_commands_run_at_the_same_time_and_keep_their_output_apart(environment: dict[str, str]) -> None:
    """Each waits for the one after it, so that a server which ran them in turn would never end."""
    wait = (
        "import sys, time, os, pathlib\n"
        "n = int(os.environ['REPRISE_TOKEN']); home = pathlib.Path(os.environ['REPRISE_HOME'])\n"
        "(home / f'here{n}').touch()\n"
        "while n < 3 and not (home / f'here{n + 1}').exists(): time.sleep(0.01)\n"
        "print(n); print(-n, file=sys.stderr)"
    )
    with ThreadPoolExecutor(4) as pool:
        done = list(
            pool.map(
                lambda n: command_server.run(shell(wait), {**environment, "REPRISE_TOKEN": str(n)}), range(4)
            )
        )
    assert [(d.stdout, d.stderr) for d in done] == [(f"{n}\n", f"{-n}\n") for n in range(4)]


def test_a_command_that_takes_too_long_is_killed(environment: dict[str, str], home: Path) -> None:
    code = "import os, pathlib, signal; pathlib.Path('{}').write_text(str(os.getpid())); signal.pause()"
    command_server.run(["help"], environment)  # the server has started
    for seconds in (2, 5, 20):  # as long as a busy machine needs to reach the first line, and no longer
        with pytest.raises(subprocess.TimeoutExpired):
            command_server.run(shell(code.format(home / "pid")), environment, seconds=seconds)
        if (home / "pid").exists():
            break
    pid, until = int((home / "pid").read_text()), time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_server_ends_with_its_tests_and_leaves_nothing(
    server: CommandServer, environment: dict[str, str]
) -> None:
    request = Request.of(shell("import os; print(os.getppid())"), environment)
    server.run(request, 300)
    server.run(request, 300)
    children = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
    (prepared,) = Path(children).read_text().split()
    server.close()
    assert server.process.returncode == 0
    until = time.monotonic() + 20
    while os.path.exists(f"/proc/{prepared}"):  # noqa: PTH110
        assert time.monotonic() < until
        time.sleep(0.01)
