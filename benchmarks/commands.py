"""What a command costs before it does anything: CPU seconds of its process, beside Django's own start.

    python -m benchmarks.commands [--times 5]

The least of `--times` starts each, taken in turn, in a home of this run with an empty SQLite: other work on the machine
makes CPU seconds larger, never smaller. *Ratio*: by a process that imports Django and sets up an empty project.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
BARE: Final = "import django; from django.conf import settings; settings.configure(); django.setup()"
MANAGE: Final = (sys.executable, "manage.py")
STARTS: Final = {
    "python": (sys.executable, "-c", ""),
    "django": (sys.executable, "-c", BARE),
    "flows --json": (*MANAGE, "flows", "--json"),
    "inspect, no such path": (*MANAGE, "inspect", "/nowhere/at/all", "--json"),
    "audit verify, empty log": (*MANAGE, "audit", "verify", "--json"),
    "diagnose, no such pipeline": (*MANAGE, "diagnose", "nobody", "--json"),
}


def cpu_of(command: tuple[str, ...], environment: dict[str, str]) -> float:
    """User and system seconds of a process and of those that it waited for."""
    with subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    home = tempfile.mkdtemp(prefix="reprise-commands-")
    own = {"REPRISE_HOME": home, "REPRISE_SECRET_KEY": "x" * 50, "REPRISE_TOKEN": "rp_nobody"}
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | own
    try:
        subprocess.run((*MANAGE, "migrate", "-v", "0"), cwd=PROJECT, env=environment, check=True)
        least = dict.fromkeys(STARTS, float("inf"))
        for _ in range(times + 1):  # the first fills caches
            least = {name: min(seconds, cpu_of(STARTS[name], environment)) for name, seconds in least.items()}
    finally:
        shutil.rmtree(home, ignore_errors=True)
    for name, seconds in least.items():
        ratio = round(seconds / least["django"], 1)
        print(json.dumps({"start": name, "cpu": round(seconds, 2), "ratio": ratio}))
    print(json.dumps({"load": round(os.getloadavg()[0], 1), "times": times}))


if __name__ == "__main__":
    main()
