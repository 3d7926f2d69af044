"""`python -m console.incident`: makes the demo's incident in the instance that runs in REPRISE_HOME."""

import sys

from console.env import home
from console.incident.making import make_incident
from console.supervisor.bootstrap import progress, refuse, say
from console.supervisor.home import read_json
from recovery.errors import RepriseError
from recovery.pipelines.client import PipelinesClient


def main() -> int:
    """Exit 0 when the pipeline has failed as it should, 1 with one sentence otherwise."""
    folder = home()
    client = PipelinesClient(
        url=str(read_json(folder / "pipelines.json").get("url", "")),
        token=(folder / "pipelines.token").read_text().strip(),
        timeout=60,
    )
    try:
        make_incident(
            client,
            base=folder / "incident" / "customers",
            tell=lambda what, seconds: say(progress(f"  {what}", seconds)),
        )
    except RepriseError as problem:
        return refuse(problem.sentence, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
