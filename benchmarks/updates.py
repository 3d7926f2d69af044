"""What one update of the Pipelines API server costs, phase by phase, without a console beside it.

    .venv/bin/python -m benchmarks.updates [--updates 7]

Starts a server of its own and measures its first update, bare warm updates (a new file, one streaming table, one after
the other) and three that start at once. Prints medians and one JSON object; every moment is of the update's own events,
but for the commit, which is the commit file's. It needs the API only, so that an older version can be measured too.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.contract.lab import Api, Stream, running

AT_ONCE = 3


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--updates", type=int, default=7)
    updates = options.parse_args().updates
    home = Path(tempfile.mkdtemp(prefix="reprise-bench-"))
    began = time.monotonic()
    before = os.getloadavg()[0]
    try:
        with running(home / "home") as server:
            ready = time.monotonic() - began
            api = Api(server)
            streams = [Stream(api, f"bench{n}", view=False) for n in range(AT_ONCE)]
            first = measure(api, streams[0])
            others = [measure(api, stream) for stream in streams[1:]]
            bare = [measure(api, streams[0]) for _ in range(updates)]
            together = at_once(api, streams)
            api.session.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    answer = {
        "ready_s": round(ready, 1),
        "first": first,
        "second_and_third": others,
        "bare_median": {key: round(statistics.median(run[key] for run in bare), 2) for key in bare[0]},
        "bare_to_end_each": [run["to_end_s"] for run in bare],
        "at_once_median": {
            key: round(statistics.median(run[key] for run in together), 2) for key in together[0]
        },
        "load_average": [round(before, 1), round(os.getloadavg()[0], 1)],
    }
    for name, value in answer.items():
        print(f"{name:20} {value}")
    print(json.dumps(answer))


def measure(api: Api, stream: Stream) -> dict[str, float]:
    """A new file and an update that reads it."""
    stream.arrive({"id": stream.written, "word": "w"})
    update_id, state = api.run(stream.id)
    assert state == "COMPLETED", api.last_error(stream.id, update_id)
    return phases(api, stream, update_id)


def at_once(api: Api, streams: list[Stream]) -> list[dict[str, float]]:
    """One update of each, started together."""
    for stream in streams:
        stream.arrive({"id": stream.written, "word": "w"})
    started = [(stream, api.start(stream.id)) for stream in streams]
    for stream, update_id in started:
        assert api.finish(stream.id, update_id) == "COMPLETED"
    return [phases(api, *pair) for pair in started]


def phases(api: Api, stream: Stream, update_id: str) -> dict[str, float]:
    """The parts of a completed update in seconds; its runner has defined the graph when SETTING_UP_TABLES begins."""
    at: dict[str, float] = {}
    for event in api.events(stream.id, update_id):
        details: dict[str, Any] = event["details"]
        state = details.get("update_progress", {}).get("state")
        ended = details.get("flow_progress", {}).get("status") == "COMPLETED"
        if state or ended:
            at[state or "FLOWS"] = datetime.fromisoformat(event["timestamp"]).timestamp()
    commit = stream.checkpoint / "0" / "commits" / str(stream.batches()[-1])
    moments = {
        "to_graph_s": at["SETTING_UP_TABLES"],
        "graph_to_flows_s": at["RUNNING"],
        "flows_to_commit_s": commit.stat().st_mtime,
        "commit_to_flows_end_s": at["FLOWS"],
        "flows_end_to_end_s": at["COMPLETED"],
    }
    parts, before = {}, at["QUEUED"]
    for name, moment in moments.items():
        parts[name], before = round(moment - before, 2), moment
    return parts | {
        "to_commit_s": round(commit.stat().st_mtime - at["QUEUED"], 2),
        "to_end_s": round(at["COMPLETED"] - at["QUEUED"], 2),
    }


if __name__ == "__main__":
    main()
