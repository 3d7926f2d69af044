"""Recovery beside a bare warm update of the same pipeline, and what the running demo weighs.

    .venv/bin/python -m benchmarks.recovery [--rounds 3]

Starts an instance of its own, makes one failed pipeline a round, recovers it by hand, and then lets the
same pipeline read new files by ordinary updates. Then goes the wizard's way from Diagnose to Proven, once a
round. Prints a table and one JSON object. Ratios are of one run.
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

from console.incident.data import File, make_change
from console.incident.making import Incident, put_files, run_update
from tests.stack import Stack, start

MARK = "WIZARD "  # before the wizard's answer, among what a shell prints


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=3)
    rounds = options.parse_args().rounds
    home = Path(tempfile.mkdtemp(prefix="reprise-bench-"))
    began = time.monotonic()
    stack = start(home, "--no-incident")
    ready = time.monotonic() - began
    try:
        runs = [one_round(stack, f"bench{n}") for n in range(rounds)]
        walks = [walk(stack, f"walk{n}") for n in range(rounds)]
        weight = memory(stack)
    finally:
        stack.end()
        shutil.rmtree(home, ignore_errors=True)
        stack.output.unlink(missing_ok=True)
    report(runs, walks, weight, ready)


def one_round(stack: Stack, name: str) -> dict[str, Any]:
    """One incident, its recovery, and three bare warm updates of the same pipeline."""
    incident = stack.incident(name)
    plan_began = time.monotonic()
    code, out, err = stack.manage("plan", name, "--flow", incident.flow, "--json", token="responder")
    assert code == 0, err
    planning = time.monotonic() - plan_began
    recovery = json.loads(out)["recovery"]
    code, out, err = stack.manage("execute", recovery, "--wait", "--json", token="responder")
    answer = json.loads(out)
    assert answer["state"] == "succeeded", err
    steps = {s["kind"]: s for s in answer["steps"]}
    first = datetime.fromisoformat(steps["stop"]["started_at"]).timestamp()
    commit = flow_place(stack, incident) / "1" / "commits" / "3"
    return {
        "plan_s": planning,
        "to_first_batch_s": commit.stat().st_mtime - first,
        "steps_s": {kind: s["seconds"] for kind, s in steps.items()},
        "bare": [bare_update(stack, incident, n) for n in range(3)],
        "rows_read": rows_read(stack, incident),
        "rows_needed": sum(len(f.records) for f in incident.arrivals.waiting),
    }


def walk(stack: Stack, name: str) -> dict[str, Any]:
    """One incident from Diagnose to Proven as the pages go: each look and step by a worker. Seconds, and CPU seconds of
    the whole instance, which other work on the machine does not lengthen."""
    stack.incident(name)
    before = cpu(stack)
    script = f"from benchmarks.wizard import main; main({name!r}, {MARK!r})"
    code, out, err = stack.manage("shell", "-c", script, token="responder", seconds=900)
    assert code == 0, err
    planned = json.loads(out.partition(MARK)[2])
    sealed = cpu(stack)
    code, out, err = stack.manage("execute", planned["recovery"], "--wait", "--json", token="responder")
    answer = json.loads(out)
    assert answer["state"] == "succeeded", err
    steps = [(datetime.fromisoformat(s["started_at"]).timestamp(), s["seconds"]) for s in answer["steps"]]
    execution = max(at + took for at, took in steps) - min(at for at, _ in steps)
    seconds = {**planned["seconds"], **{s["kind"]: s["seconds"] for s in answer["steps"]}}
    return {
        "seconds": seconds,
        "diagnose_to_proven_s": sum(planned["seconds"].values()) + execution,
        "cpu_planning_s": sealed - before,
        "cpu_execution_s": cpu(stack) - sealed,
    }


def cpu(stack: Stack) -> float:
    """CPU seconds of every process of the instance, those that have ended and were waited for among them."""
    pids = stack.demo["pids"].values()
    everything = {p for pid in pids for p in family(pid)}
    return sum(map(burnt, everything)) / os.sysconf("SC_CLK_TCK")


def burnt(pid: int) -> int:
    """Clock ticks of a process and of its children that it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime


def bare_update(stack: Stack, incident: Incident, number: int) -> dict[str, float]:
    """A new file and an update of the same one table: until its batch is committed, and until its end."""
    put_files((File("changes", f"bare-{number}.json", (make_change(1000 + number),)),), incident.base)
    began, clock = time.monotonic(), time.time()
    update = stack.client.start_update(incident.pipeline_id, refresh_selection=[incident.table])
    state, why = run_update(stack.client, incident.pipeline_id) if update else ("", "")
    assert state == "COMPLETED", why
    ended = time.monotonic() - began
    commits = flow_place(stack, incident) / "1" / "commits"
    newest = max((p for p in commits.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    return {"to_commit_s": newest.stat().st_mtime - clock, "to_end_s": ended}


def flow_place(stack: Stack, incident: Incident) -> Path:
    root = stack.home / "storage" / incident.pipeline_id / "_checkpoints"
    return root / incident.table.replace(".", "/") / incident.flow.rsplit(".", 1)[1]


def rows_read(stack: Stack, incident: Incident) -> int:
    """Rows of the input files that the recovery's first batch holds, by the checkpoint's source log."""
    log = (flow_place(stack, incident) / "1" / "sources" / "0" / "3").read_text().splitlines()[1:]
    paths = [Path(json.loads(line)["path"].removeprefix("file://")) for line in log]
    return sum(len(p.read_text().splitlines()) for p in paths)


def memory(stack: Stack) -> dict[str, float]:
    """PSS in MB: everything, and the console alone (web, worker, beat, broker, supervisor)."""
    pids = stack.demo["pids"]
    spark = family(pids["pipelines"])
    everything = family(pids["supervisor"]) | spark | {p for pid in pids.values() for p in family(pid)}
    return {"all_mb": sum(map(pss, everything)), "console_mb": sum(map(pss, everything - spark))}


def family(pid: int) -> set[int]:
    found = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found |= family(int(child))
    return found


def pss(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def report(
    runs: list[dict[str, Any]], walks: list[dict[str, Any]], weight: dict[str, float], ready: float
) -> None:
    """Medians, and the ratios that the goals name."""
    first = statistics.median(r["to_first_batch_s"] for r in runs)
    plan = statistics.median(r["plan_s"] for r in runs)
    bare = statistics.median(b["to_commit_s"] for r in runs for b in r["bare"])
    whole = statistics.median(b["to_end_s"] for r in runs for b in r["bare"])
    answer = {
        "ready_s": round(ready, 1),
        "plan_command_s": round(plan, 2),
        "sealed_plan_to_first_committed_batch_s": round(first, 2),
        "bare_warm_update_to_commit_s": round(bare, 2),
        "bare_warm_update_to_end_s": round(whole, 2),
        "ratio_recovery_to_bare": round(first / bare, 2),
        "ratio_with_planning": round((plan + first) / bare, 2),
        "rows_read_over_needed": sum(r["rows_read"] for r in runs) / sum(r["rows_needed"] for r in runs),
        "steps_median_s": {
            kind: round(statistics.median(r["steps_s"][kind] for r in runs), 2) for kind in runs[0]["steps_s"]
        },
        "walk_median_s": {
            part: round(statistics.median(w["seconds"][part] for w in walks), 2)
            for part in walks[0]["seconds"]
        },
        **{
            f"walk_{name}": round(statistics.median(w[name] for w in walks), 2)
            for name in ("diagnose_to_proven_s", "cpu_planning_s", "cpu_execution_s")
        },
        "memory_mb": {k: round(v) for k, v in weight.items()},
        "rounds": len(runs),
    }
    for name, value in answer.items():
        print(f"{name:42} {value}")
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
