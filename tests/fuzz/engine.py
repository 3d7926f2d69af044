"""A small coverage-guided fuzzer: an input that runs a line for the first time is kept and mutated further."""

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from recovery.checkpoints import formats
from recovery.checkpoints.formats import Malformed
from tests.fuzz.targets import Target

ROOM = str(Path(formats.__file__).parent)
PIECES = (
    b"",
    b"\n",
    b"-",
    b"v1",
    b"v2",
    b"v99",
    b"{}",
    b"[]",
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e9",
    b"NaN",
    b"9" * 19,
    b"9" * 5000,
    b'"',
    b'""',
    b":",
    b",",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"../",
    b"[" * 2000,
    b'{"a":' * 2000,
)
MAX_SIZE = 40_000


class Escaped(Exception):
    """A target raised something else than Malformed; `data` made it do so."""

    def __init__(self, target: str, data: bytes) -> None:
        super().__init__(f"{target} on {data[:200]!r}")
        self.target, self.data = target, data


def fuzz(target: Target, *, seed: int, rounds: int = 10**9, seconds: float = 1e9) -> tuple[int, int]:
    """(inputs tried, inputs that reached something new). Raises Escaped with the first input that is a bug."""
    chance = random.Random(seed)
    seen: set[tuple[str, int, int]] = set()
    corpus: list[bytes] = []
    for example in target.examples:
        run(target, example, seen)
        corpus.append(example)
    end, tried = time.monotonic() + seconds, 0
    while tried < rounds and time.monotonic() < end:
        data = mutated(chance, corpus)
        tried += 1
        if run(target, data, seen):
            corpus.append(data)
    return tried, len(corpus) - len(target.examples)


def run(target: Target, data: bytes, seen: set[tuple[str, int, int]]) -> bool:
    """Did this input run a step from one line to another for the first time?"""
    before = len(seen)
    try:
        with traced(seen):
            answer = target.act(data)
        # What is read is shown and stored: it must be text that can be written.
        json.dumps(answer, default=vars, ensure_ascii=False).encode()
    except Malformed:
        return len(seen) > before
    except Exception as error:
        raise Escaped(target.name, data) from error
    return len(seen) > before


@contextmanager
def traced(seen: set[tuple[str, int, int]]) -> Iterator[None]:
    """Collects (file, line before, line) of the room's code into `seen`."""

    def local(last: list[int]) -> Callable[..., Any]:
        def step(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "line":
                seen.add((frame.f_code.co_filename, last[0], frame.f_lineno))
                last[0] = frame.f_lineno
            return step

        return step

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        return local([0]) if frame.f_code.co_filename.startswith(ROOM) else None

    usual = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(usual)


def mutated(chance: random.Random, corpus: list[bytes]) -> bytes:
    """One to four changes to one of the inputs that are worth it."""
    data = chance.choice(corpus)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(data))
        to = min(len(data), at + chance.choice((0, 1, 1, 4, 30)))
        kind = chance.randrange(5)
        if kind == 0:
            data = data[:at] + chance.choice(PIECES) + data[to:]
        elif kind == 1:
            data = data[:at] + bytes([chance.randrange(256)]) + data[to:]
        elif kind == 2:
            data = data[:at] + data[to:]
        elif kind == 3:
            other = chance.choice(corpus)
            data = data[:at] + other[chance.randint(0, len(other)) :]
        else:
            data = data[:at] + data[at:to] * 2 + data[to:]
    return data[:MAX_SIZE]
