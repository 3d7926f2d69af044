"""The commands of bin/, each one function. Standard library only: they run before the environment exists."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from console.supervisor import bootstrap, browser, options, postgres
from console.supervisor.bootstrap import ROOT, CannotStart, progress, refuse, say

CHECK_ENV = {
    "REPRISE_SECRET_KEY": "check-only-0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "REPRISE_SECURE": "true",
    "REPRISE_ALLOWED_HOSTS": "reprise.example",
}


def quiet(_: str) -> None:
    """Progress that nobody needs to see: `manage` must print its answer alone."""


def demo(arguments: list[str]) -> int:
    """Bring the environment, then become the supervisor in it."""
    options.parse(arguments)  # --help and wrong options are answered before minutes of downloads
    if sys.platform != "linux":
        raise CannotStart(f"bin/demo runs on Linux; this is {sys.platform}: use docker-compose.yml there.")
    say("Reprise")
    python = bootstrap.ensure("demo")
    os.chdir(ROOT)
    os.execv(python, [str(python), "-m", "console.supervisor", *arguments])  # noqa: S606


def manage(arguments: list[str]) -> int:
    python = bootstrap.ensure("demo", quiet)
    os.execv(python, [str(python), str(ROOT / "manage.py"), *arguments])  # noqa: S606


def run_tests(arguments: list[str]) -> int:
    """bin/check, the unit tests on both databases and all cores, then all that run against a running instance.

    The latter mostly wait for Spark, so two processes share them, file by file, each with an instance of its own.

    With arguments pytest alone, on SQLite unless `--database postgresql` asks otherwise. Exit code of the first
    that failed; what comes after it runs all the same, but nothing does after a failed check.
    """
    database, asked = tested_database(arguments)
    python = bootstrap.ensure("dev")
    began = time.monotonic()
    os.environ["CONSOLE_TEST_BROWSER"] = browser.ensure(python, ROOT / ".venv" / "browser", say)
    say(progress("Browser ready", time.monotonic() - began, os.environ["CONSOLE_TEST_BROWSER"]))
    if not arguments and (code := check([])):
        return code
    os.chdir(ROOT)
    unit = ["tests/unit", "-n", "auto", "--maxprocesses=8"]
    rest = ["--ignore=tests/unit", "-n", "2", "--dist", "loadfile", "--durations=25"]
    everything = [("sqlite", unit), ("postgresql", unit), ("sqlite", rest)]
    parts = [(database, asked)] if arguments else everything
    codes = [run_pytest(python, which, part) for which, part in parts]
    return next((code for code in codes if code), 0)


def tested_database(arguments: list[str]) -> tuple[str, list[str]]:
    """What `--database` names, and the arguments without it. Raises CannotStart for a database we do not know."""
    rest, named = list(arguments), "sqlite"
    if "--database" in rest:
        at = rest.index("--database")
        named = rest[at + 1] if at + 1 < len(rest) else ""
        del rest[at : at + 2]
    if named not in ("sqlite", "postgresql"):
        raise CannotStart(f"--database {named} is not known; name sqlite or postgresql.")
    return named, rest


def run_pytest(python: Path, database: str, arguments: list[str]) -> int:
    """pytest's exit code. PostgreSQL is a real server of this run, on a socket of its own."""
    command = [str(python), "-m", "pytest", *arguments]
    if database == "sqlite":
        environment = {name: value for name, value in os.environ.items() if name != postgres.VARIABLE}
        return subprocess.run(command, env=environment).returncode
    began = time.monotonic()
    with postgres.running(python) as url:
        say(progress("PostgreSQL ready", time.monotonic() - began))
        return subprocess.run(command, env=os.environ | {postgres.VARIABLE: url}).returncode


def check_commands(python: str) -> list[tuple[str, list[str]]]:
    """What bin/check runs, in order of speed."""
    templates = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "templates").rglob("*.html"))]
    manage_py = [python, "manage.py"]
    bin_of = str(Path(python).parent)
    return [
        ("Lint", [python, "-m", "ruff", "check", "--quiet", "."]),
        ("Format", [python, "-m", "ruff", "format", "--check", "--quiet", "."]),
        *(
            [("Templates", [f"{bin_of}/djade", "--check", "--target-version", "5.2", *templates])]
            if templates
            else []
        ),
        ("Import rules", [f"{bin_of}/lint-imports", "--no-cache", "--no-logo"]),
        ("Migrations", [*manage_py, "makemigrations", "--check", "--dry-run"]),
        ("Deployment", [*manage_py, "check", "--deploy", "--fail-level", "WARNING"]),
        ("Types", [python, "-m", "mypy"]),
    ]


def check(arguments: list[str]) -> int:
    """Every check, all of them even after one failed; exit 1 if any did."""
    if arguments:
        raise CannotStart("bin/check takes no arguments.")
    python = str(bootstrap.ensure("dev"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("REPRISE_")}
    env |= CHECK_ENV | {"REPRISE_HOME": str(ROOT / ".venv" / "check-home")}
    failed = []
    for name, command in check_commands(python):
        began = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        say(progress(name, time.monotonic() - began, "" if done.returncode == 0 else "FAILED"))
        if done.returncode:
            failed.append(name)
            say((done.stdout + done.stderr).rstrip())
    if failed:
        say(f"Checks failed: {', '.join(failed)}.")
    return 1 if failed else 0


def lock(arguments: list[str]) -> int:
    """Compile the largest set, then the others with it as constraint, so that all agree in versions."""
    if set(arguments) - {"--upgrade"}:
        raise CannotStart("bin/lock takes no argument but --upgrade.")
    python = str(bootstrap.ensure("dev"))
    base = [python, "-m", "uv", "pip", "compile", "-q", "--universal", "--python-version", "3.11"]
    base += ["--generate-hashes", "--no-header", "--no-emit-index-url", *arguments]
    for name in ("dev", "demo", "spark", "web", "uv"):
        constraint = [] if name in ("dev", "uv") else ["-c", "requirements/dev.txt"]
        command = [*base, *constraint, f"requirements/{name}.in", "-o", f"requirements/{name}.txt"]
        began = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise CannotStart(f"requirements/{name}.in cannot be locked: {done.stderr.strip()}")
        say(progress(f"requirements/{name}.txt", time.monotonic() - began))
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "demo": demo, "test": run_tests, "check": check, "manage": manage, "lock": lock,
}  # fmt: skip


def main(command: str, arguments: list[str]) -> int:
    """Run one command of bin/. An expected failure is one sentence on stderr and exit code 2."""
    try:
        return COMMANDS[command](arguments)
    except CannotStart as problem:
        return refuse(str(problem))
    except KeyboardInterrupt:
        return refuse("Interrupted.", 130)
