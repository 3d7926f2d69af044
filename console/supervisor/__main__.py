"""`python -m console.supervisor`: what bin/demo becomes once the environment is there."""

import os
import shutil
import sys
import time
from pathlib import Path

from console.supervisor import home as homes
from console.supervisor import instance, options, processes
from console.supervisor.bootstrap import FULL, CannotStart, os_sentence, progress, refuse
from console.supervisor.supervisor import Ending, Supervisor
from console.supervisor.terminal import say


def main(arguments: list[str]) -> int:
    """Exit 0 after an orderly end, 1 when something would not start, 2 when it was refused before that."""
    asked = options.parse(arguments)
    os.umask(0o077)
    homes.make(asked.home)
    with homes.claimed(asked.home):
        began = time.monotonic()
        if ended := homes.sweep(asked.home):
            say(
                progress(
                    "Cleaned up after the last run", time.monotonic() - began, f"{ended} processes ended"
                )
            )
        if asked.reset:
            left = homes.reset(asked.home)
            note = f"left alone: {', '.join(left)}" if left else ""
            say(progress("Reset", time.monotonic() - began, note))
        listener = instance.listen(asked.port)
        supervisor = Supervisor(instance.configure(asked, listener))
        supervisor.listen_to_signals()
        processes.become_subreaper()
        return live(supervisor, incident=asked.incident)


def live(supervisor: Supervisor, *, incident: bool) -> int:
    """Start, watch, and stop whatever happens."""
    try:
        supervisor.start(incident=incident)
        supervisor.watch()
    except Ending:
        say("  Asked to end while starting")
    except CannotStart as problem:
        return refuse(explain(problem, supervisor.instance.home), 1)
    finally:
        supervisor.stop()
    return 0


def explain(problem: CannotStart, home: Path) -> str:
    """The sentence for what would not start. A full disk cuts off logs and words, so it is looked at here."""
    if shutil.disk_usage(home).free < FULL:
        return f"The disk is full: {home} needs more room; free some and start again."
    return str(problem)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except CannotStart as problem:
        sys.exit(refuse(str(problem)))
    except OSError as problem:
        sys.exit(refuse(os_sentence(problem, "keeping the files of this instance"), 1))
