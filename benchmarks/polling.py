"""A poll of a workspace with a thousand pipelines: calls, seconds and CPU, beside as many bare calls one after another.

    python -m benchmarks.polling [--pipelines 1000] [--answer 0.08] [--rounds 3]

A stub of the Pipelines API takes `--answer` seconds for each answer, as a service far away does. The first round
reads everything; in the next ones all pipelines are idle; in the last, one in a hundred has run. The database is an
SQLite of this run. *Ratio*: seconds of a round by those of one call for each pipeline in a row, by this run's own
bare call.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
import urllib.request
from typing import Any

FLOW = "main.shop.orders_flow"
BARE = 20
PAGE = 100  # pipelines, as Databricks lists them


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--answer", type=float, default=0.08)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    home = tempfile.mkdtemp(prefix="reprise-polling-")
    os.environ |= {
        "REPRISE_HOME": home, "DJANGO_SETTINGS_MODULE": "console.settings", "REPRISE_SECRET_KEY": "x" * 50,
        "REPRISE_WORKSPACE_BENCH": "rp_x", "REPRISE_OUTBOUND_ALLOW": "127.0.0.1",
    }  # fmt: skip
    try:
        for line in measured(given.pipelines, given.answer, given.rounds):
            print(json.dumps(line), flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def measured(pipelines: int, answer: float, rounds: int) -> list[dict[str, Any]]:
    import django

    django.setup()
    from django.core.management import call_command

    from recovery.models import Workspace
    from tests.unit.pipelines.api import Api
    from tests.unit.pipelines.stub import serving

    call_command("migrate", verbosity=0)
    api = Api()
    for number in range(pipelines):
        api.add(f"p{number:04}", f"shop {number}").run("u1", {FLOW: "COMPLETED"})

    def slow(asked: Any) -> Any:
        time.sleep(answer)
        said = api(asked)
        if asked.path == "/api/2.0/pipelines":
            first = int(asked.query.get("page_token", 0))
            page = {"statuses": said.body["statuses"][first : first + PAGE]}
            said.body = page | ({"next_page_token": str(first + PAGE)} if first + PAGE < pipelines else {})
        return said

    with serving(slow) as stub:
        bare = bare_seconds(f"{stub.url}/api/2.0/pipelines/p0000")
        row = Workspace.objects.create(name="bench", url=stub.url, token_ref="env:REPRISE_WORKSPACE_BENCH")
        out = [one_round("first", stub, row, bare * pipelines)]
        out += [one_round("idle", stub, row, bare * pipelines) for _ in range(rounds)]
        for number in range(0, pipelines, 100):
            api.pipelines[f"p{number:04}"].run("u2", {FLOW: "COMPLETED"})
        out.append(one_round("one in a hundred has run", stub, row, bare * pipelines))
    return out


def bare_seconds(url: str) -> float:
    """Of one call, by the middle of BARE."""
    took = []
    for _ in range(BARE):
        began = time.perf_counter()
        with urllib.request.urlopen(url) as answer:  # noqa: S310  (the stub's own address)
            answer.read()
        took.append(time.perf_counter() - began)
    return sorted(took)[BARE // 2]


def one_round(name: str, stub: Any, workspace: Any, in_a_row: float) -> dict[str, Any]:
    from recovery.models import Pipeline
    from recovery.pipelines.inventory import refresh

    stub.asked.clear()
    wall, cpu = time.perf_counter(), time.process_time()
    refresh(workspace_id=workspace.pk)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    workspace.refresh_from_db()
    assert not workspace.poll_error, workspace.poll_error
    return {
        "round": name, "pipelines": Pipeline.objects.count(), "calls": len(stub.asked),
        "seconds": round(wall, 2), "cpu": round(cpu, 2), "ratio": round(wall / in_a_row, 3),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


if __name__ == "__main__":
    main()
