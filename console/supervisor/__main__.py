"""`python -m console.supervisor`: what bin/demo becomes once the environment is there."""

import os
import shutil
import sys
import time
from pathlib import Path

from console.incident.orders_making import orders_folder
from console.supervisor import home as homes
from console.supervisor import instance, options, processes
from console.supervisor.bootstrap import FULL, CannotStart, os_sentence, progress_line, refuse_command
from console.supervisor.supervisor import StopRequested, Supervisor
from console.supervisor.terminal import print_line


def main(arguments: list[str]) -> int:
    """Exit 0 after an orderly end, 1 when something would not start, 2 when it was refused before that."""
    asked = options.parse_options(arguments)
    os.umask(0o077)
    homes.make_home(asked.home)
    with homes.claim_home(asked.home):
        began = time.monotonic()
        if ended := homes.sweep_leftovers(asked.home):
            print_line(
                progress_line(
                    "Cleaned up after the last run", time.monotonic() - began, f"{ended} processes ended"
                )
            )
        if asked.reset:
            left = homes.reset_home(asked.home)
            shutil.rmtree(orders_folder(asked.home), ignore_errors=True)
            note = f"left alone: {', '.join(left)}" if left else ""
            print_line(progress_line("Reset", time.monotonic() - began, note))
        listener = instance.listen_on(asked.port)
        supervisor = Supervisor(instance.configure_instance(asked, listener))
        supervisor.listen_to_signals()
        processes.become_subreaper()
        return live_until_ended(supervisor, incident=asked.incident, plain=asked.plain)


def live_until_ended(supervisor: Supervisor, *, incident: bool, plain: bool = False) -> int:
    """Start, watch, and stop whatever happens."""
    try:
        supervisor.start(incident=incident, plain=plain)
        supervisor.watch()
    except StopRequested:
        print_line("  Asked to end while starting")
    except CannotStart as problem:
        return refuse_command(explain_failed_start(problem, supervisor.instance.home), 1)
    finally:
        supervisor.stop()
    return 0


def explain_failed_start(problem: CannotStart, home: Path) -> str:
    """The sentence for what would not start. A full disk cuts off logs and words, so it is looked at here."""
    if shutil.disk_usage(home).free < FULL:
        return f"The disk is full: {home} needs more room; free some and start again."
    return str(problem)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except CannotStart as problem:
        sys.exit(refuse_command(str(problem)))
    except OSError as problem:
        sys.exit(refuse_command(os_sentence(problem, "keeping the files of this instance"), 1))
