"""Brings the project's Python environment from a bare Python: standard library only.

bin/demo, bin/test, bin/check, bin/lock and bin/manage all go through `ensure_set()`. The environment is
`.venv` beside manage.py. A stamp inside it names the lock it was made from, and is written last: an
install that was interrupted leaves no stamp and is simply done again.
"""

import errno
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
JARS = ROOT / ".venv" / "jars"  # locked Java archives, one folder a list
SETS = ("demo", "dev")  # each holds all of the one before
ROOM = {"demo": 1_700_000_000, "dev": 2_200_000_000}  # bytes on disk, measured, with some air
FULL = 16_000_000  # bytes: a disk with less room than this is full
NETWORK_WORDS = (
    "name resolution", "failed to resolve", "name or service not known", "dns error", "connection refused",
    "network is unreachable", "failed to establish a new connection", "error sending request",
    "could not connect", "failed to fetch", "no matching distribution", "read timed out",
    "connection reset", "tcp connect error", "no route to host",
)  # fmt: skip

CERTIFICATE_WORDS = (
    "unknownissuer", "certificate verify failed", "certificate_verify_failed", "self-signed certificate",
    "self signed certificate", "unable to get local issuer certificate",
)  # fmt: skip

# why an install failed that no other installer would do
DISK_FULL, INDEX_SILENT, INDEX_UNTRUSTED = "disk_full", "index_silent", "index_untrusted"


class CannotStart(Exception):
    """An expected failure; its text is one sentence for the person at the terminal, its `code` stays the same."""

    def __init__(self, sentence: str, *, code: str = "cannot_start") -> None:
        super().__init__(sentence)
        self.code = code


def print_line(text: str) -> None:
    print(text, flush=True)


def os_sentence(error: OSError, what: str) -> str:
    """One sentence for an operating-system error met while doing `what`, with what to do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full: {what} needs more room; free some and start again."
    where = f" ({error.filename})" if error.filename else ""
    return f"{what[0].upper()}{what[1:]} failed: {error.strerror or error}{where}."


def explain_install(output: str, log: Path) -> CannotStart:
    """Why a download or an install failed, in one sentence and by its code, from what pip or uv printed."""
    words = output.lower()
    if "no space left" in words or "disk quota" in words:
        return CannotStart(
            "The disk is full: installing the locked packages needs more room; free some and start again.",
            code=DISK_FULL,
        )
    if "hash" in words and ("mismatch" in words or "do not match" in words):
        return CannotStart(
            f"A downloaded package is not the one that was locked, so it was not installed; see {log} for "
            "its name, and check the package index that this machine uses.",
            code="not_as_locked",
        )
    if any(word in words for word in CERTIFICATE_WORDS):  # uv says that it failed to fetch, too
        return CannotStart(
            "The package index's certificate is not trusted here. Set SSL_CERT_FILE to your authorities, for example "
            "/etc/ssl/certs/ca-certificates.crt.",
            code=INDEX_UNTRUSTED,
        )
    if any(word in words for word in NETWORK_WORDS):
        return CannotStart(
            "The locked packages could not be downloaded: the package index does not answer; check the "
            f"network or the proxy settings of this machine and start again (details: {log}).",
            code=INDEX_SILENT,
        )
    return CannotStart(f"Installing the locked packages failed; {log} has the reason.", code="install_failed")


def lock_sha256(name: str, root: Path = ROOT) -> str:
    return hashlib.sha256((root / "requirements" / f"{name}.txt").read_bytes()).hexdigest()


def stamp_of(venv: Path) -> dict[str, str]:
    """What the environment was made from: `{set, sha256, python}`; empty when unknown or unfinished."""
    try:
        stamp = json.loads((venv / "reprise-lock.json").read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def wanted_set(needed: str, stamp: dict[str, str]) -> str:
    """The set to install: never a smaller one than a developer already has."""
    have = stamp.get("set", "")
    return have if have in SETS and SETS.index(have) > SETS.index(needed) else needed


def is_current(venv: Path, name: str, root: Path = ROOT) -> bool:
    stamp = stamp_of(venv)
    return (
        stamp.get("set") == name
        and stamp.get("sha256") == lock_sha256(name, root)
        and stamp.get("root") == str(root)
        and stamp.get("python") == platform.python_version()
        and os.access(venv / "bin" / "python", os.X_OK)
    )


def refuse_a_link(venv: Path) -> None:
    """An environment that is a link belongs to someone else: making it again would empty theirs."""
    if venv.is_symlink():
        raise CannotStart(
            f"{venv} is a link to {venv.readlink()}, and Reprise empties and makes its environment itself; remove "
            "the link and start again.",
            code="environment_is_link",
        )


@contextmanager
def only_one(venv: Path) -> Iterator[None]:
    """Two commands started at once install once: the second waits for the first."""
    venv.mkdir(exist_ok=True)
    with (venv / "reprise.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def run_logged(command: list[str], log: Path) -> None:
    """Run an installer with its output in `log`; raises CannotStart with one sentence."""
    with log.open("w") as out:
        code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT).returncode
    if code:  # on a full disk the log itself may be cut off, so the disk is asked too
        output = log.read_text(errors="replace")
        full = shutil.disk_usage(log.parent).free < FULL
        raise explain_install("no space left" if full else output, log)


def make_venv(venv: Path, log: Path) -> None:
    """A fresh environment with pip; raises CannotStart when this Python cannot make one."""
    try:
        import ensurepip  # noqa: F401
        import venv as venv_module  # noqa: F401
    except ImportError as problem:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise CannotStart(
            f"This Python cannot make environments: its module {problem.name!r} is missing; install it "
            f"(on Debian and Ubuntu the package is python{version}-venv) and start again."
        ) from problem
    keep = {"reprise.lock", log.name}
    for entry in venv.iterdir():
        if entry.name not in keep:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    run_logged([sys.executable, "-m", "venv", str(venv)], log)


def install_set(venv: Path, name: str) -> None:
    """Install exactly the locked set `name`, every file checked against its hash."""
    log = venv / "reprise-install.log"
    python = str(venv / "bin" / "python")
    works = (
        subprocess.run([python, "-c", "import pip"], capture_output=True).returncode == 0
        if (venv / "bin" / "python").exists()
        else False
    )
    if not works or stamp_of(venv).get("root", str(ROOT)) != str(ROOT):
        make_venv(venv, log)
    lock = str(ROOT / "requirements" / f"{name}.txt")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--require-hashes", "-r"]
    try:
        run_logged([*pip, str(ROOT / "requirements" / "uv.txt")], log)
    except CannotStart as problem:  # no wheel of uv for this machine: pip alone does it, slower
        if problem.code in (DISK_FULL, INDEX_SILENT, INDEX_UNTRUSTED):  # pip would fail as well
            raise
        run_logged([*pip, lock], log)
    else:
        # compiled here, once: other people's code runs where it cannot write, so nothing would keep it compiled there
        sync = [python, "-m", "uv", "pip", "sync", "-q", "--compile-bytecode", "--python", python]
        run_logged([*sync, "--require-hashes", lock], log)
    stamp = {"set": name, "sha256": lock_sha256(name), "root": str(ROOT), "python": platform.python_version()}
    (venv / "reprise-lock.json").write_text(json.dumps(stamp))


def ensure_set(needed: str, tell: Callable[[str], None] = print_line) -> Path:
    """The environment's python, with at least the set `needed` ("demo" or "dev") installed.

    Raises CannotStart with one sentence: unwritable folder, no network, full disk, wrong hash.
    """
    venv = ROOT / ".venv"
    refuse_a_link(venv)
    began = time.monotonic()
    try:
        name = wanted_set(needed, stamp_of(venv))
        if not is_current(venv, name):
            with only_one(venv):
                if not is_current(venv, name):
                    free = shutil.disk_usage(ROOT).free
                    if not (venv / "bin").exists() and free < ROOM[name]:
                        raise OSError(errno.ENOSPC, "No space left on device")
                    tell(
                        f"  Installing the locked packages ({name}) into .venv, some minutes the first time …"
                    )
                    install_set(venv, name)
    except OSError as problem:
        if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise CannotStart(
                f"The folder {ROOT} cannot be written, and Reprise keeps its environment there; copy the "
                "checkout to a folder of your own and start again.",
                code="environment_unwritable",
            ) from problem
        raise CannotStart(os_sentence(problem, "making the environment")) from problem
    tell(progress_line("Environment ready", time.monotonic() - began))
    return venv / "bin" / "python"


def progress_line(what: str, seconds: float, note: str = "") -> str:
    """One line of progress: what was done, how long it took."""
    return f"  {what:<34} {seconds:6.1f} s" + (f"   {note}" if note else "")


def refuse_command(sentence: str, code: int = 2) -> int:
    print(sentence, file=sys.stderr, flush=True)
    return code
