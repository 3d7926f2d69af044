"""What is kept of an adopted stream, as one value. Pure."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from recovery.models import Stream


@dataclass(frozen=True)
class StreamColumns:
    """Columns of `models.Stream` by their names: what people said of it. `sink`, `event_log`, `program`: paths or URLs;
    `start`, `stop`, `running`: the words of each command; "" and () where nobody said."""

    sink: str = ""
    event_log: str = ""
    program: str = ""
    arguments: tuple[str, ...] = ()
    spark_python: str = ""
    runner: str = "by-hand"
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    owner: str = ""

    @classmethod
    def of_stream(cls, stream: Stream) -> "StreamColumns":
        return cls(
            stream.sink, stream.event_log, stream.program, tuple(stream.arguments), stream.spark_python, stream.runner,
            tuple(stream.start), tuple(stream.stop), tuple(stream.running), stream.owner,
        )  # fmt: skip

    def as_values(self) -> dict[str, Any]:
        """For the database and the audit log."""
        return {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}

    @property
    def runner_digest(self) -> str:
        """Of what starts and stops the stream and what tells that it stands still: a plan is approved with these, and
        void with others."""
        named = [self.runner, list(self.start), list(self.stop), list(self.running), self.event_log]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()
