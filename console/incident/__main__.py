"""`python -m console.incident [KAFKA]`: makes the demo's incidents in the instance that runs in REPRISE_HOME.

The first one always; with the address of a Kafka broker the second one too.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from console.env import home_folder
from console.incident.clicks_making import make_clicks
from console.incident.making import make_incident
from console.supervisor.bootstrap import print_line, progress_line, refuse_command
from console.supervisor.home import read_json
from recovery.errors import RepriseError
from recovery.pipelines.client import PipelinesClient


def main(*kafka: str) -> int:
    """Exit 0 when the pipelines have failed as they should, 1 with one sentence otherwise."""
    folder = home_folder()
    client = PipelinesClient(
        url=str(read_json(folder / "pipelines.json").get("url", "")),
        token=(folder / "pipelines.token").read_text().strip(),
        timeout=60,
    )
    place = folder / "incident"
    make: dict[str, tuple[Path, Callable[..., object]]] = {
        "customers, files into a file table": (place / "customers", partial(make_incident, client))
    }
    for servers in kafka:
        made = partial(make_clicks, client, servers=servers)
        make["clicks_by_minute, Kafka into Delta"] = (place / "clicks", made)
    problems = []
    for about, (base, incident) in make.items():
        if not (base / "incident.json").exists():
            print_line(f"  Pipeline {about}:")
        try:
            incident(base=base, tell=lambda what, seconds: print_line(progress_line(f"  {what}", seconds)))
        except RepriseError as problem:
            problems.append(problem.sentence)
    return refuse_command(" ".join(problems), 1) if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
