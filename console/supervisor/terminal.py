"""What the person at the terminal reads."""

import errno
import os
import sys
from pathlib import Path
from typing import Any


def print_line(text: str) -> None:
    """Print a line. A terminal or pipe that went away is no reason to end an instance that others use.

    Nor is a file on a full disk: Python keeps the line and writes it with a later one.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def sign_ins(
    url: str, people: dict[str, dict[str, str]], *, first: bool, failed: bool, kept: Path
) -> list[str]:
    """The address, and the passwords where this is the first start of the home; `kept` is the file that holds them.

    `failed`: this start made a flow that fails.
    """
    lines = [f"  {url}", ""]
    if not first:
        return [*lines, f"  Names and passwords are those of the first start, in {kept}."]
    lines += [f"  {'name':<12}{'role':<12}password", *[
        f"  {name:<12}{who['role']:<12}{who['password']}" for name, who in people.items()
    ]]  # fmt: skip
    return [
        *lines,
        "",
        "Sign in as responder. The failed flow is at the top."
        if failed
        else "Sign in as responder. No flow was made: see docs/guide.md, On your own stream.",
        f"  These passwords are shown here once; {kept} keeps them.",
        "  Ctrl-C ends everything that was started.",
    ]


REACHES = {
    "file": "read the console's files, secrets among them",
    "socket": "connect to the broker, and so give the workers tasks",
    "environment": "read the environment of the console's processes",
    "signal": "end the console's processes",
    "neighbour": "read the files of other pipelines",
    "process": "end the updates of other pipelines",
    "apart": "read the files of other environments",
}


def confinement_lines(proof: dict[str, Any] | None) -> list[str]:
    """What holds pipelines' code on this machine too little; nothing where all of it was tried and held.

    `proof` as in pipelines.json: `level`, `reached`, `namespaces`, `landlock`, `why`.
    """
    if not proof or proof["level"] == "full":
        return []
    missing = ["namespaces"] * (not proof["namespaces"]) + ["Landlock"] * (not proof["landlock"])
    lines = [
        "",
        "  Careful: this machine does not hold pipelines' code in a jail. Their code can",
    ]
    lines += [f"    - {REACHES[name]}" for name in proof["reached"]]
    lines += [f"  Missing here: {' and '.join(missing)}."] * bool(missing)
    lines += ["  Run no code here that you do not trust."]
    return [*lines, f"  The system says: {proof['why']}"] if proof["why"] else lines
