"""What the tests of the Spark room share: code to study, input to read, tables that streams fill."""

import atexit
import json
import os
import sys
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recovery.spark import answers, session
from recovery.spark.api import (
    Answers,
    MeasureRequest,
    Study,
    StudyRequest,
    as_study,
    measure,
    study,
    table_location,
)
from recovery.spark.asking import sent

TOKEN = "a-token-of-the-tests"
SCHEMA = "id int, kind string, amount double"


def end_session(spark: Any) -> None:
    """Give the session back to Spark, and let no other test take it for its own. Its channel stays open, as in
    `recovery.spark.session.release_session`; without a close pyspark would ask Spark once more at exit."""
    spark.client.close = lambda: None
    atexit.unregister(spark.client._on_exit)
    spark.stop()


@dataclass
class Room:
    """A workspace with one pipeline, and two folders of input."""

    remote: str
    folder: Path
    answers: Answers

    def put(self, name: str, *rows: dict[str, Any] | str) -> str:
        """An input file; its URI."""
        path = self.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
        return f"file://{path}"

    def request(self, code: str, **more: Any) -> StudyRequest:
        text = textwrap.dedent(code).replace("IN/", f"{self.folder}/in/")
        files = {"/Users/ann/p/flow.py": "from pyspark import pipelines as dp\n" + text}
        files |= more.pop("helpers", {})
        base: dict[str, Any] = {
            "answers": self.answers,
            "files": files,
            "root": "/Users/ann/p",
            "libraries": ("/Users/ann/p/flow.py",),
            "configuration": {},
            "catalog": "spark_catalog",
            "schema": "default",
            "flow": "spark_catalog.default.t",
        }
        return StudyRequest(**{**base, **more})

    def study(self, code: str, **more: Any) -> Study:
        """As the console asks: in a fork of its own."""
        return study(self.request(code, **more))

    def look(self, code: str, **more: Any) -> Study:
        """The same answer without the fork, in a fresh session of this process."""
        request = self.request(code, **more)
        spark = session.fresh(self.remote, request.configuration)
        before, place, keeps_nothing = list(sys.path), Path.cwd(), sys.dont_write_bytecode
        # as where the product runs it: code that changes within a second, in as many letters, is not taken for the old
        sys.dont_write_bytecode = True
        try:
            answer = answers.study_code(spark, json.loads(json.dumps(sent(request))), self.code)
            return as_study(json.loads(json.dumps(asdict(answer))))
        finally:
            sys.dont_write_bytecode = keeps_nothing
            sys.path[:] = before
            os.chdir(place)
            end_session(spark)

    @property
    def code(self) -> Path:
        folder = self.folder / "code"
        folder.mkdir(exist_ok=True)
        return folder


SIMPLE = f"""
@dp.table
def t():
    return spark.readStream.schema("{SCHEMA}").json("IN/a")
"""


def row(number: int, kind: str | None = "x", amount: float | None = 1.0) -> dict[str, Any]:
    return {"id": number, "kind": kind, "amount": amount}


@dataclass
class Written:
    """A parquet table that a stream fills; the data files that each batch wrote."""

    name: str
    folder: Path
    connect: Any
    schema: str
    source: Path
    answers: Answers

    def run(self) -> tuple[str, ...]:
        before = set(self.files())
        stream = self.connect.readStream.schema(self.schema).json(str(self.source))
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .toTable(self.name)
        )
        query.awaitTermination(60)
        assert query.exception() is None
        return tuple(f for f in self.files() if f not in before)

    def files(self) -> list[str]:
        found = table_location(self.answers, self.name)
        log = Path((found or "/nowhere").removeprefix("file:")) / "_spark_metadata"
        entries = [json.loads(line) for f in log.glob("[0-9]*") for line in f.read_text().splitlines()[1:]]
        return sorted({entry["path"] for entry in entries})


def compared(
    room: Room, table: Written, inputs: tuple[str, ...], old: Any, new: Any, code: str = SIMPLE, **more: Any
) -> Any:
    asked = room.request(code, sets={"new": inputs})
    return measure(MeasureRequest(room.answers, table.name, tuple(old), tuple(new), asked, **more))
