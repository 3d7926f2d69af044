"""One program with its data: rows arrive, it runs as its team runs it, and its table is read without Spark."""

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow.parquet as pq

from console.supervisor import jars
from recovery.server.driver import connector_settings
from recovery.server.java import find_java
from tests import tables
from tests.kafka import KafkaBroker
from tests.plain.programs import Program
from tests.spark_child import QUICK
from tests.stack import Stack, wait_for

Row = tuple[Any, ...]
LONG_AGO: Final = 1_760_000_000
"""Of a file's time, in seconds since 1970; the next one comes a second later."""


@dataclass
class World:
    """`base`: its data, and its program below `app`. `topic`: of its own. `time_zone`: of the cluster's JVM."""

    base: Path
    program: Program
    kafka: KafkaBroker | None = None
    time_zone: str = "UTC"
    arrived: list[list[Mapping[str, Any]]] = field(default_factory=list)
    _mark: str = field(default_factory=lambda: uuid4().hex[:12])

    def __post_init__(self) -> None:
        for name in ("in", "in2", "events", "conf"):
            (self.base / name).mkdir(parents=True)
        if self.program.source == "kafka":
            assert self.kafka
            self.kafka.topic(self.topic, partitions=2)
        self.settle()

    @property
    def is_upper(self) -> bool:
        """Does the program write its texts in capitals?"""
        return any("F.upper" in text for text in self.program.files.values())

    @property
    def topic(self) -> str:
        """Of its own also where pytest shortens the names of two tests to the same folder."""
        return f"plain-{self._mark}"

    @property
    def main(self) -> Path:
        return self.base / "app" / self.program.main

    @property
    def out(self) -> Path:
        return self.base / "out"

    @property
    def checkpoint(self) -> Path:
        return self.base / "checkpoint"

    def _told(self, text: str) -> str:
        brokers = self.kafka.address if self.kafka else ""
        for name, value in (("base", str(self.base)), ("topic", self.topic), ("brokers", brokers)):
            text = text.replace("{" + name + "}", value)
        return text

    @property
    def arguments(self) -> list[str]:
        return [self._told(text) for text in self.program.arguments]

    def settle(self) -> None:
        """What a team's cluster has set: event logs, archives, few resources."""
        java_options = (QUICK, f"-Dderby.system.home={self.base}", f"-Duser.timezone={self.time_zone}")
        settings = {
            "spark.master": "local[1]",
            "spark.ui.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{self.base}/events",
            "spark.driver.extraJavaOptions": " ".join(java_options),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": f"file://{self.base}/warehouse",
        }
        if self.program.has_connectors:
            folder = jars.ensure_jars("connectors", tell=lambda _: None)[0].parent
            settings |= connector_settings(str(folder))
        text = "".join(f"{name} {value}\n" for name, value in settings.items())
        (self.base / "conf" / "spark-defaults.conf").write_text(text)

    def write(self, step: str) -> None:
        """Deploy the program with this step."""
        for files in (self.program.files, self.program.config):
            for name, text in files.items():
                place = self.base / "app" / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(
                    self._told(text) if files is self.program.config else text.replace("@STEP@", step)
                )

    def arrive(self, rows: Sequence[Mapping[str, Any]], folder: str = "in") -> None:
        """One more file of input, or as many records."""
        if folder == "in":
            self.arrived.append(list(rows))
        lines = [json.dumps(row) for row in rows]
        if self.program.source == "kafka":
            assert self.kafka
            for partition in (0, 1):
                self.kafka.put(self.topic, lines[partition::2], partition)
        elif self.program.source == "delta":
            self._append(lines)
        else:
            number = len(list((self.base / folder).iterdir()))
            place = self.base / folder / f"{number:04}.json"
            place.write_text("\n".join(lines))
            # Spark reads the oldest first, and files of one moment in any order
            arrived_at = LONG_AGO + number
            os.utime(place, (arrived_at, arrived_at))

    def _append(self, lines: Iterable[str]) -> None:
        """Rows into the Delta table that is read, by a batch job of another team."""
        number = len(list(self.base.glob("landing-*")))
        landing = self.base / f"landing-{number}"
        landing.mkdir()
        (landing / "rows.json").write_text("\n".join(lines))
        code = (
            "from pyspark.sql import SparkSession\n"
            "spark = SparkSession.builder"
            ".config('spark.sql.extensions', 'io.delta.sql.DeltaSparkSessionExtension')"
            ".config('spark.sql.catalog.spark_catalog', 'org.apache.spark.sql.delta.catalog.DeltaCatalog')"
            ".config('spark.eventLog.enabled', 'false').getOrCreate()\n"
            f"spark.read.schema('id int, v string, at long').json('{landing}')"
            f".write.format('delta').mode('append').save('{self.base}/raw')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=self._environment, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]

    @cached_property
    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "REPRISE_"))}
        java = str(find_java(self.base / "java").home)
        return {
            **kept,
            "SPARK_CONF_DIR": str(self.base / "conf"),
            "JAVA_HOME": java,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    @property
    def words(self) -> list[str]:
        return [sys.executable, str(self.main), *self.arguments]

    def run(self) -> subprocess.CompletedProcess[str]:
        """The program, in the foreground to its end."""
        return subprocess.run(
            self.words, capture_output=True, text=True, timeout=300, env=self._environment, check=False, cwd=self.base
        )  # fmt: skip

    def run_until(self, batch: int) -> None:
        """A program without an end, until it has committed a batch; then it is stopped as people stop it."""
        with (self.base / "said").open("wb") as said:
            process = subprocess.Popen(
                self.words, env=self._environment, cwd=self.base, stdout=said, stderr=said
            )
        try:
            wait_for(lambda: (self.checkpoint / "commits" / str(batch)).exists(), f"batch {batch}", 180)
        finally:
            process.terminate()
            process.wait(60)

    def adopt_words(self, *, is_named: bool = True, by_hand: bool = False, **other: str) -> list[str]:
        """The words of `adopt`, with all that a team can tell; `other`: another command to start, stop, tell;
        `by_hand`: none at all, a person starts and stops it."""
        return [
            "adopt", str(self.checkpoint), "--name", f"plain-{self.topic}", "--sink", str(self.out),
            "--event-log", str(self.base / "events"), *(["--program", str(self.main)] if is_named else []),
            *(f"--argument={argument}" for argument in self.arguments),
            *([] if by_hand else self._commands(other)),
            "--environment", "development",
        ]  # fmt: skip

    def _commands(self, other: Mapping[str, str]) -> list[str]:
        held = ("PATH", "SPARK_CONF_DIR", "JAVA_HOME", "SPARK_LOCAL_IP")
        given = [f"{name}={self._environment[name]}" for name in held if name in self._environment]
        return [
            "--start", other.get("start") or shlex.join(["env", *given, *self.words]),
            "--stop", f"pkill -f {self.main}", "--running", other.get("running") or f"pgrep -f {self.main}",
        ]  # fmt: skip

    def rows(self) -> Counter[Row]:
        """What the table holds, by any reader."""
        if not self.out.exists():
            return Counter()
        if self.program.sink == "parquet":
            held = tables.rows(self.out)
        elif self.program.sink == "delta":
            held = delta_rows(self.out)
        else:
            files = [p for p in self.out.rglob("*.parquet") if not p.name.startswith((".", "_"))]
            held = [row for file in files for row in pq.read_table(file).to_pylist()]
        return Counter(tuple(sorted(row.items())) for row in held)


def delta_rows(table: Path) -> list[dict[str, Any]]:
    """Rows of a Delta table by its log's JSON entries alone (small tables, no checkpoint parquet)."""
    files: dict[str, None] = {}
    for entry in sorted((table / "_delta_log").glob("*.json")):
        for line in entry.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                files[action["add"]["path"]] = None
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
    return [row for name in files for row in pq.read_table(table / name).to_pylist()]


def answered(stack: Stack, *words: str, token: str = "admin") -> tuple[int, dict[str, Any]]:
    """The answer of a command: exit code, JSON."""
    code, out, err = stack.manage(*words, "--json", token=token, seconds=900)
    assert out, err
    return code, json.loads(out)
