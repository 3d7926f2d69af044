"""Spark in a process of a test's own: archives and settings of its class path must be there when its JVM starts."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recovery.server.java import find_java

# A test's JVM ends before the better compiler has paid for itself, and shares few cores with much else. Without that
# compiler Java keeps 48 MB for code, which the plans of a whole run fill.
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


class SparkChild:
    """Runs `script` with `told` as its argument; it answers each line of stdin by a line `ANSWER …`, all of it JSON."""

    def __init__(self, folder: Path, script: str, told: Mapping[str, Any] | Sequence[Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        env = {
            **os.environ,
            "JAVA_HOME": str(find_java(folder / "java").home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        self.log = (folder / "spark.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, json.dumps(told)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=env, cwd=folder, text=True,
        )  # fmt: skip

    def answer(self, line: Mapping[str, Any]) -> Any:
        """What it says to one line. Raises AssertionError with the end of its log when it has died."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        for said in self.process.stdout:
            if said.startswith("ANSWER "):
                return json.loads(said.removeprefix("ANSWER "))
        raise AssertionError(Path(self.log.name).read_text()[-3000:])

    def close(self) -> None:
        """End it; gone when this returns."""
        assert self.process.stdin
        assert self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()
