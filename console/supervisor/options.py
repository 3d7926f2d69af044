"""The options of bin/demo, read twice: before the environment is made, and by the supervisor in it."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from console.supervisor.bootstrap import ROOT, CannotStart


@dataclass(frozen=True)
class DemoOptions:
    """What the person asked for. `port` 0 means any free one."""

    home: Path
    port: int
    reset: bool
    incident: bool
    connectors: bool = False
    plain: bool = False


def home_folder() -> Path:
    """The folder of all run-time files: `REPRISE_HOME`, else `var/` beside manage.py."""
    return Path(os.environ.get("REPRISE_HOME") or ROOT / "var").expanduser().resolve()


def build_parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="bin/demo",
        description="From a bare Python 3.11 or newer to a running console with a real, failed pipeline. "
        "Ctrl-C ends everything that it started, and nothing else; what it made is kept and used again.",
        epilog="REPRISE_HOME names the folder of all run-time files (default: var/ next to manage.py). "
        "REPRISE_BROKER_URL names a Redis or Valkey to use in place of the one that comes with the demo.",
    )
    made.add_argument(
        "--port", type=int, default=8000, help="port of the console on 127.0.0.1 (default: 8000)"
    )
    made.add_argument(
        "--reset",
        action="store_true",
        help="delete this home's files first: databases, tables, people, incident",
    )
    made.add_argument("--no-incident", action="store_true", help="start without making the failed pipeline")
    made.add_argument(
        "--connectors",
        action="store_true",
        help="fetch Spark's connectors of Kafka and Delta and a Kafka broker, locked and checked; with them a second "
        "incident, from Kafka into a Delta table",
    )
    made.add_argument(
        "--plain",
        action="store_true",
        help="a third incident: a plain PySpark program with an event log, adopted with its start and stop commands",
    )
    return made


def parse_options(arguments: list[str]) -> DemoOptions:
    """Raises CannotStart for a port that is none; argparse itself exits 2 on wrong use."""
    asked = build_parser().parse_args(arguments)
    if not 0 <= asked.port <= 65535:
        raise CannotStart(
            f"--port {asked.port} is no port; give one between 1 and 65535, or 0 for any free one."
        )
    return DemoOptions(
        home=home_folder(),
        port=asked.port,
        reset=asked.reset,
        incident=not asked.no_incident,
        connectors=asked.connectors,
        plain=asked.plain,
    )
