"""What every command here does first: says in words that any Python 3 can read that it is too old."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
NEWEST_FIRST = ("python3.13", "python3.12", "python3.11")


def newer_python() -> "str | None":
    """Another Python on PATH that is new enough, or None."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for name in NEWEST_FIRST:
            path = os.path.join(folder, name)  # noqa: PTH118
            if os.access(path, os.X_OK) and os.system("'%s' -c pass 2>/dev/null" % path) == 0:  # noqa: S605, UP031
                return path
    return None


def run(command: str) -> int:
    """Run one command of console.supervisor.tools; returns its exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036 (this is the place that says so)
        other = newer_python()
        if other:
            os.execv(other, [other] + sys.argv)  # noqa: S606, RUF005
        sys.stderr.write(
            "Reprise needs Python 3.11 or newer; this is Python %d.%d, so install a newer one, or put it "  # noqa: UP031
            "first on PATH, and start again.\n" % sys.version_info[:2]
        )
        return 2
    sys.path[0] = ROOT
    from console.supervisor import tools

    return tools.main(command, sys.argv[1:])
