"""What the person at the terminal reads."""

import errno
import os
import sys
from pathlib import Path


def say(text: str) -> None:
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


def sign_ins(url: str, people: dict[str, dict[str, str]], first: bool, kept: Path) -> list[str]:
    """The address, and the passwords where this is the first start of the home; `kept` is the file that holds them."""
    lines = [f"  {url}", ""]
    if not first:
        return [*lines, f"  Names and passwords are those of the first start, in {kept}."]
    lines += [f"  {'name':<12}{'role':<12}password", *[
        f"  {name:<12}{who['role']:<12}{who['password']}" for name, who in people.items()
    ]]  # fmt: skip
    return [
        *lines,
        "",
        "Sign in as responder. The failed flow is at the top.",
        f"  Passwords are shown only now. They are also in {kept}.",
        "  Ctrl-C ends everything that was started.",
    ]
