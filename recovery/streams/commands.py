"""The commands by which a stream is started, stopped and asked for: the words that an admin wrote down, and no shell.

What they run can be a program that a responder patched. So they run as the console's user, who has the logins that they
need, but with no more of its environment than `KEPT`, and without its home (`recovery.server.jail.hold_command`).
"""

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from django.conf import settings

from recovery.audit import cleansing
from recovery.errors import OutcomeUnknown, Refused, RepriseError, Unreachable, WrongUse
from recovery.eventlogs.values import is_row_setting
from recovery.names import shown
from recovery.server.jail import hold_command, measure_protection
from recovery.spark import secrets
from recovery.streams import launch

KEPT: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "KUBECONFIG", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KRB5_CONFIG", "KRB5CCNAME", "JAVA_HOME",
    "SPARK_HOME", "AWS_PROFILE", "AWS_REGION", "AWS_CONFIG_FILE", "DATABRICKS_CONFIG_FILE",
)  # fmt: skip
"""Variables of the worker that a command gets."""
_NOT_OF_CODE: Final = re.compile(
    r"^(?:PATH|HOME|LD_.*|PYTHON.*|JAVA_.*|SPARK_.*|PYSPARK_.*|HADOOP_.*|DJANGO_.*|REPRISE_.*)$"
    r"|SECRET|PASS(?:W|P|_|\d|$)|TOKEN|CREDENTIAL|KEY|PRIVATE|AUTH(?:_|\d|$|EN|ORI)",
    re.IGNORECASE,
)
_OF_CLUSTER: Final = re.compile(
    r"spark\.(?:hadoop|driver|executor|executorEnv|yarn|kubernetes|jars|submit|ssl|authenticate|eventLog|sql\.catalog|"
    r"master|history|metrics|ui|network|io|mongodb|cassandra|es|redis|jdbc|kafka|datasource|cosmos|snowflake)\b.*"
)
"""Settings that no code of a program asks for by name; some hold secrets."""
_LEADS_IN: Final = re.compile(
    r"passwd|pwd|\bpass\b|\bauth\b|authoris|authoriz|authent|dsn|ur[il]$|(?:api|private|session).?key",
    re.IGNORECASE,
)
"""Names of settings that may hold a secret, beside those of `secrets.is_secret`."""
STOP_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 20.0
MOST_WORDS: Final = 200
LONGEST: Final = 8_000
TAIL: Final = 2_000
OUTPUT_SECONDS: Final = 0.1
COMMAND_FILE: Final = "command.json"
"""In the folder of a start command until something runs it."""


class CommandFailed(RepriseError):
    """A command ended otherwise than with 0."""

    code = "command_failed"


@dataclass(frozen=True)
class StartCommandRun:
    """A start command, as its folder tells: `exit_code` None while it runs; `took`: how long it ran then; `output`: the
    end of what it printed. `is_waiting`: nothing has begun to run it."""

    exit_code: int | None
    took: timedelta | None
    output: str
    is_waiting: bool = False


def split_command(text: str, option: str) -> list[str]:
    """A command split as a shell would. Raises WrongUse."""
    if len(text) > LONGEST or "\0" in text:
        raise WrongUse(f"{option} has at most {LONGEST} characters.")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongUse(f"{option} cannot be split into words: {error}.") from error
    if not words or len(words) > MOST_WORDS:
        raise WrongUse(f"{option} needs a program, and at most {MOST_WORDS} words.")
    return words


def variables_of(words: Sequence[str]) -> dict[str, str]:
    """What a command that begins with `env NAME=VALUE …` gives to the program, for the study of its code: without what
    is of the machine, and without what may be a secret."""
    if not words or words[0].rpartition("/")[2] != "env":
        return {}
    given = itertools.takewhile(
        lambda pair: pair[1] and pair[0].isidentifier(),
        (w.partition("=") for w in _behind_options(words[1:])),
    )
    return {name: value for name, _, value in given if not _NOT_OF_CODE.search(name)}


def read_conf_settings(words: Sequence[str]) -> dict[str, str]:
    """What a command gives to the program's session with `--conf NAME=VALUE`, for the study of its code: without what
    is of the cluster, and without what may be a secret."""
    said = [word.removeprefix("--conf=") for word in words if word.startswith("--conf=")]
    said += [value for word, value in itertools.pairwise(words) if word in ("--conf", "-c")]
    pairs = (one.partition("=") for one in said)
    given = {name: value for name, equals, value in pairs if equals and len(value) <= LONGEST}
    return {name: value for name, value in given.items() if is_row_setting(name) or _is_of_code(name, value)}


def _is_of_code(name: str, value: str) -> bool:
    if not name.startswith("spark.") or _OF_CLUSTER.fullmatch(name):
        return False
    if secrets.is_secret(name) or _LEADS_IN.search(name):
        return False
    return bool(cleansing.cleanse_value({name: value}) == {name: value}) and "://" not in value


def _behind_options(words: Sequence[str]) -> Sequence[str]:
    """The words of `env` from its first variable on."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-u", "-C", "--unset", "--chdir") else 1
    return words[at:]


def is_running(words: Sequence[str]) -> bool:
    """Does the command say so, by ending with 0? Raises Unreachable where it says nothing.

    One look at a time: `pgrep -f` would find the words of another look that runs beside it."""
    with _only_look(words):
        code, output = _run(words, LOOK_SECONDS)
    if code in (126, 127) or code < 0:
        raise Unreachable(f"Whether the stream runs is not known: {_describe_exit(words, code, output)}")
    return code == 0


@contextlib.contextmanager
def _only_look(words: Sequence[str]) -> Iterator[None]:
    """Across the processes of this machine; a look ends within `LOOK_SECONDS`."""
    folder = Path(settings.REPRISE_HOME) / "streams"
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    name = hashlib.sha256(json.dumps(list(words)).encode()).hexdigest()[:16]
    with (folder / f".look-{name}").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def stop(words: Sequence[str]) -> str:
    """What the stop command printed. Raises CommandFailed, Unreachable."""
    code, output = _run(words, STOP_SECONDS)
    if code:
        raise CommandFailed(
            f"The stop command did not stop the stream: {_describe_exit(words, code, output)}"
        )
    return output


def prepare_start(words: Sequence[str]) -> str:
    """The folder from which `launch_start` runs a start command, and in which its end is written. Raises Refused."""
    order = {"words": confine(words), "environment": pick_variables(), "cwd": str(Path.home())}
    folder = Path(settings.REPRISE_HOME) / "streams" / uuid.uuid4().hex
    folder.mkdir(parents=True, mode=0o700)
    command = folder / COMMAND_FILE
    command.touch(mode=0o600)
    command.write_text(json.dumps(order))
    return str(folder)


def launch_start(folder: str) -> None:
    """Run a start command beside this process. Raises OutcomeUnknown."""
    try:
        subprocess.run(
            [sys.executable, launch.__file__, folder], env=pick_variables(), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LOOK_SECONDS,
            check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise OutcomeUnknown(
            f"Whether the start command runs is not known ({type(error).__name__}). Look at the stream before you "
            "start it again.",
            code="command_lost",
        ) from error


def read_start(folder: str) -> StartCommandRun:
    """What became of a start command."""
    place = Path(folder)
    code, took = _number(place / "exit"), None
    if code is not None:
        began, ended = place / "pid", place / "exit"
        took = (
            timedelta(seconds=ended.stat().st_mtime - began.stat().st_mtime)
            if began.exists()
            else timedelta()
        )
    try:
        output = (place / "output").read_bytes()[-launch.KEPT :].decode(errors="replace")
    except OSError:
        output = ""
    return StartCommandRun(code, took, cleansing.cleanse_text(output), (place / COMMAND_FILE).exists())


def confine(words: Sequence[str], *, entered: int | None = None) -> list[str]:
    """The command that runs these words and reaches nothing of the console. Raises Refused (`no_confinement`)."""
    protection, demand = measure_protection(), settings.REPRISE_CONFINEMENT
    missing = protection.bubblewrap is None if demand == "required" else protection.landlock == 0
    if missing and demand != "optional":
        raise Refused(
            "This machine cannot keep a command away from the console's secrets: "
            f"{protection.why or 'its Linux has no Landlock'}. "
            "Allow user namespaces, or see REPRISE_CONFINEMENT in the operator's guide.",
            code="no_confinement",
        )
    home = Path(settings.REPRISE_HOME)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)  # what is not there cannot be hidden
    return hold_command(words, home=home, entered=entered)


def pick_variables() -> dict[str, str]:
    """What a command may know of ours."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def _number(place: Path) -> int | None:
    try:
        return int(place.read_text())
    except (OSError, ValueError):
        return None


def _run(words: Sequence[str], seconds: float) -> tuple[int, str]:
    """Exit code and the end of its output. Raises Unreachable where it did not begin or did not end, Refused."""
    entered, mark = os.pipe()
    with os.fdopen(entered, "rb") as entry:
        try:
            process = subprocess.Popen(
                confine(words, entered=mark), env=pick_variables(), cwd=Path.home(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, pass_fds=(mark,),
            )  # fmt: skip
        except OSError as error:
            raise Unreachable(
                f"{shown(words[0])} cannot be run: {error.strerror}.", code="no_command"
            ) from error
        finally:
            os.close(mark)
        with process:
            output = _read_output(process, time.monotonic() + seconds)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                raise Unreachable(
                    f"{shown(words[0])} did not end within {seconds:.0f} s, so what it did is not known.",
                    code="command_late",
                )
        if not select.select([entry], [], [], 0)[0] or not entry.read(1):
            raise Unreachable(
                f"No place for {shown(words[0])} could be made: {shown(output[-TAIL:])}", code="no_command"
            )
        return process.returncode, output


def _read_output(process: "subprocess.Popen[bytes]", until: float) -> str:
    """The end of what a process prints until it has ended, or until then by `time.monotonic()`; bounded."""
    assert process.stdout is not None
    kept, is_open = bytearray(), True
    while time.monotonic() < until:
        has_ended = process.poll() is not None
        if is_open and select.select([process.stdout], [], [], 0 if has_ended else OUTPUT_SECONDS)[0]:
            piece = os.read(process.stdout.fileno(), launch.KEPT)
            is_open = bool(piece)
            kept = (kept + piece)[-launch.KEPT :]
        elif has_ended:
            break
        elif not is_open:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
    return cleansing.cleanse_text(kept.decode(errors="replace"))


def _describe_exit(words: Sequence[str], code: int, output: str) -> str:
    tail = shown(" ".join(output[-TAIL:].split()))
    return f"{shown(words[0])} ended with {code}. {tail}".rstrip()
