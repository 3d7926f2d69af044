"""The commands of bin/, each one function. Standard library only: they run before the environment exists."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from console.supervisor import bootstrap, browser, options
from console.supervisor.bootstrap import ROOT, CannotStart, print_line, progress_line, refuse_command
from devtools import lanes, proofs, wheel

CHECK_ENV = {
    "REPRISE_SECRET_KEY": "check-only-0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "REPRISE_SECURE": "true",
    "REPRISE_ALLOWED_HOSTS": "reprise.example",
}


def ignore_progress(_: str) -> None:
    """Progress that no one needs to see: `run_manage` must print its answer alone."""


def run_demo(arguments: list[str]) -> int:
    """Bring the environment, then become the supervisor in it."""
    options.parse_options(arguments)  # --help and wrong options are answered before minutes of downloads
    if sys.platform != "linux":
        raise CannotStart(f"bin/demo runs on Linux; this is {sys.platform}: use docker-compose.yml there.")
    print_line("Reprise")
    python = bootstrap.ensure_set("demo")
    os.chdir(ROOT)
    os.execv(python, [str(python), "-m", "console.supervisor", *arguments])  # noqa: S606


def run_manage(arguments: list[str]) -> int:
    python = bootstrap.ensure_set("demo", ignore_progress)
    os.execv(python, [str(python), str(ROOT / "manage.py"), *arguments])  # noqa: S606


def run_tests(arguments: list[str]) -> int:
    """The everyday lane; with `--all` the slow proofs too, with `--changed` what a change can have broken, with
    `--coverage` what unit tests reach. `--all` with names of proofs runs these alone.

    With other arguments pytest alone, on SQLite unless `--database postgresql` asks otherwise. Exit code of the first
    part that failed; the parts after it run all the same, but none does after a failed check.
    """
    lane, rest = chosen_lane(arguments)
    database, rest = tested_database(rest)
    if lane == "--all":
        refuse_unknown_proofs(rest)
    elif lane == "--changed" and len(rest) > 1:
        raise CannotStart("bin/test --changed takes at most one Git revision.")
    elif lane in ("--coverage", "--ask-again") and rest:
        raise CannotStart(f"bin/test {lane} takes no further argument.")
    if "--database" in arguments and (lane or not rest):
        raise CannotStart("--database is for tests that you name: bin/test --database postgresql tests/unit.")
    python = bootstrap.ensure_set("dev")
    began = time.monotonic()
    os.environ["CONSOLE_TEST_BROWSER"] = browser.ensure_browser(
        python, ROOT / ".venv" / "browser", print_line
    )
    print_line(progress_line("Browser ready", time.monotonic() - began, os.environ["CONSOLE_TEST_BROWSER"]))
    os.chdir(ROOT)
    if lane == "--coverage":
        return lanes.measure_coverage(python)
    if not lane and rest:
        return lanes.run_pytest([str(python), "-m", "pytest", *rest], database)
    if code := run_checks([]):
        return code
    if lane == "--changed":
        return run_changed(python, rest)
    if lane == "--all" and rest:
        return run_proofs(python, rest)
    results = lanes.run_parts(python, lanes.EVERYDAY, ask_again=lane == "--ask-again")
    lanes.summarize(results, began)
    code = lanes.exit_code(results)
    return run_proofs(python, []) or code if lane == "--all" else code


def chosen_lane(arguments: list[str]) -> tuple[str, list[str]]:
    """`--all`, `--changed`, `--coverage` or `--ask-again` where it comes first, else "", and what follows."""
    if arguments and arguments[0] in ("--all", "--changed", "--coverage", "--ask-again"):
        return arguments[0], arguments[1:]
    return "", list(arguments)


def refuse_unknown_proofs(names: list[str]) -> None:
    """Raises CannotStart, naming the proofs that there are."""
    known = [proof.name for proof in proofs.PROOFS]
    if unknown := sorted(set(names) - set(known)):
        raise CannotStart(f"There is no proof {', '.join(unknown)}. Proofs: {', '.join(known)}.")


def run_changed(python: Path, refs: list[str]) -> int:
    """The tests that a change can have broken, by the import graph."""
    began = time.monotonic()
    printed = subprocess.run(
        [str(python), "-m", "devtools.changed", *refs], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    unit, running, smoke, [left_out] = (line.split() for line in printed.splitlines())
    parts = []
    if unit:
        arguments = (*unit, *lanes.EVERY_DAY, *lanes.UNIT_WORKERS)
        parts.append(replace(lanes.UNIT_SQLITE, name="nearest unit tests, SQLite", arguments=arguments))
    if running:
        parts.append(replace(lanes.INSTANCE, arguments=(*running, *lanes.EVERY_DAY, *lanes.RUNNING_WORKERS)))
    if smoke:
        parts.append(lanes.SMOKE)
    print_line(
        f"This change asks {len(unit)} unit test files, {len(running)} others{', one recovery' if smoke else ''}."
    )
    if left_out != "0":
        print_line(
            f"{left_out} more import it only through others and would take more than 3 minutes: bin/test runs them."
        )
    results = lanes.run_parts(python, parts)
    lanes.summarize(results, began)
    return lanes.exit_code(results)


def run_proofs(python: Path, names: list[str]) -> int:
    """The slow proofs, each kept in docs/proofs.md when it ends; 1 when any failed."""
    failed = []
    for proof in proofs.named(names):
        print_line(f"\n== proof {proof.name}: {proof.claim}")
        run = proofs.run_proof(python, proof)
        proofs.keep_run(run)
        print_line(progress_line(f"proof {proof.name}", run.seconds, run.result))
        if run.result != "passed":
            failed.append(proof.name)
    if failed:
        print_line(f"Proofs failed: {', '.join(failed)}.")
    return 1 if failed else 0


def tested_database(arguments: list[str]) -> tuple[str, list[str]]:
    """What `--database` names, and the arguments without it. Raises CannotStart for a database we do not know."""
    rest, named = list(arguments), "sqlite"
    if "--database" in rest:
        at = rest.index("--database")
        named = rest[at + 1] if at + 1 < len(rest) else ""
        del rest[at : at + 2]
    if named not in ("sqlite", "postgresql"):
        raise CannotStart(
            f"--database {named} is not known; name sqlite or postgresql.", code="unknown_database"
        )
    return named, rest


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


def run_checks(arguments: list[str]) -> int:
    """Every check, all of them even after one failed; exit 1 if any did."""
    if arguments:
        raise CannotStart("bin/check takes no arguments.")
    python = str(bootstrap.ensure_set("dev"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("REPRISE_")}
    env |= CHECK_ENV | {"REPRISE_HOME": str(ROOT / ".venv" / "check-home")}
    commands = check_commands(python)
    # The types take as long as all the rest together, so they begin first and the rest runs beside them.
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda check: run_check(check[0], check[1], env), reversed(commands)))
    failed = [name for name, passed in outcomes if not passed]
    for line in proofs.list_stale(proofs.PROOFS, proofs.read_record()):
        print_line(f"  Older than its code: proof {line}")
    if failed:
        print_line(f"Checks failed: {', '.join(failed)}.")
    return 1 if failed else 0


def run_check(name: str, command: list[str], env: dict[str, str]) -> tuple[str, bool]:
    """Run one check and print its line, with all that it said when it failed; (its name, whether it passed)."""
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    passed = done.returncode == 0
    line = progress_line(name, time.monotonic() - began, "" if passed else "FAILED")
    print_line(line if passed else f"{line}\n{(done.stdout + done.stderr).rstrip()}")
    return name, passed


def lock_requirements(arguments: list[str]) -> int:
    """Compile the largest set, then the others with it as constraint, so that all agree in versions."""
    if set(arguments) - {"--upgrade"}:
        raise CannotStart("bin/lock takes no argument but --upgrade.")
    python = str(bootstrap.ensure_set("dev"))
    base = [python, "-m", "uv", "pip", "compile", "-q", "--universal", "--python-version", "3.11"]
    base += ["--generate-hashes", "--no-header", "--no-emit-index-url", *arguments]
    for name in ("dev", "demo", "spark", "web", "uv"):
        constraint = [] if name in ("dev", "uv") else ["-c", "requirements/dev.txt"]
        command = [*base, *constraint, f"requirements/{name}.in", "-o", f"requirements/{name}.txt"]
        began = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise CannotStart(f"requirements/{name}.in cannot be locked: {done.stderr.strip()}")
        print_line(progress_line(f"requirements/{name}.txt", time.monotonic() - began))
    return 0


def build_release(arguments: list[str]) -> int:
    """The wheel with the command `reprise`, in dist/, with its digest. Needs no environment."""
    if arguments:
        raise CannotStart("bin/release takes no arguments.")
    try:
        made = wheel.write_wheel(ROOT / "dist")
    except wheel.CannotBuild as problem:
        raise CannotStart(str(problem)) from problem
    except OSError as problem:
        raise CannotStart(bootstrap.os_sentence(problem, "writing the wheel")) from problem
    print_line(f"{made.relative_to(ROOT)}\nsha256 {hashlib.sha256(made.read_bytes()).hexdigest()}")
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "demo": run_demo, "test": run_tests, "check": run_checks, "manage": run_manage, "lock": lock_requirements,
    "release": build_release,
}  # fmt: skip


def main(command: str, arguments: list[str]) -> int:
    """Run one command of bin/. An expected failure is one sentence on stderr and exit code 2."""
    # Images of containers often set it. Each of our many processes would then compile all that it imports, at each
    # start: that is half of a start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        return COMMANDS[command](arguments)
    except CannotStart as problem:
        return refuse_command(str(problem))
    except KeyboardInterrupt:
        return refuse_command("Interrupted.", 130)
