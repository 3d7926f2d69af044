"""Names the line of people's own code that a failure came from, out of the exceptions of an event. Pure.

The Pipelines server says its failures with it, and the console reads those of any server with it. An exception is
`{class_name, message, stack}` of `error.exceptions` (frames innermost first). Python's own traceback, which the service
puts into the message, is read too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from recovery.contracts.diagnosis import ChainedError
from recovery.numbers import read_whole

_FOREIGN: Final = re.compile(
    r"<|.*(?:\.(?:scala|java|kt|jar|class)$|/(?:site|dist)-packages/|/lib/python3|/pyspark/)"
)
_CODE: Final = re.compile(r".*\.(?:py|sql|ipynb)$|/", re.IGNORECASE)
_TRACED: Final = re.compile(r'File "([^"\n]{1,400})", line (\d{1,9})')
_RAISED: Final = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: (.*))?\Z")
_PLACE_AGAIN: Final = re.compile(r"\s*\([^()]{0,400}, line \d+\)$")
_LONGEST: Final = 200


@dataclass(frozen=True)
class CodeFailure:
    """What people's code died of. `exception`: its class without the module; `message`: its first sentence, "" where it
    says none; `file`: as it is called in the workspace, the last part of its path; `line`: from 1, None where only the
    file is known."""

    exception: str
    message: str
    file: str
    line: int | None

    @property
    def sentence(self) -> str:
        """`KeyError: 'S3_BUCKET' in 01_bronze_tax.py, line 25`, without a full stop."""
        what = f"{self.exception}: {self.message}" if self.message else self.exception
        return f"{what} in {self.file}" + (f", line {self.line}" if self.line else "")


def read_exception(exception: Mapping[str, object]) -> ChainedError:
    """One of `error.exceptions` of an event, whatever it holds; `file` and `line` are those of people's code, by its
    stack."""
    stack = exception.get("stack")
    frames = (frame for frame in (stack if isinstance(stack, list) else ()) if isinstance(frame, Mapping))
    frame = next((f for f in frames if _is_peoples(str(f.get("file_name") or ""))), None)
    place = {"file": str(frame["file_name"]), "line": _number(frame.get("line_number"))} if frame else {}
    return ChainedError(
        class_name=str(exception.get("class_name") or ""),
        message=str(exception.get("message") or "").strip(),
        **{key: str(value) for key, value in place.items() if value},
    )


def find_code_failure(chain: Sequence[ChainedError]) -> CodeFailure | None:
    """Of the outermost exception that was raised in people's code: Python shows that one last. None where none was."""
    for error in chain:
        message = error.message.strip()
        traced = [(f, n) for f, n in _TRACED.findall(message) if _is_peoples(f)]
        place = (error.file, _number(error.line)) if error.file else None
        place = place or ((traced[-1][0], int(traced[-1][1])) if traced else None)
        if place:
            kind, says = _raised(error.class_name, message, traced=bool(traced))
            return CodeFailure(kind, says, place[0].rstrip("/").rsplit("/", 1)[-1], place[1])
    return None


def first_sentence(message: str) -> str:
    """The first sentence of an error's first line, without its bracketed condition and its full stop; at most 200
    characters."""
    if message.startswith("[") and "] " in message:
        message = message.split("] ", 1)[1]
    line = next(iter(message.strip().splitlines()), "")
    cut = line.find(". ")
    line = (line[:cut] if cut > 0 else line).rstrip(". ")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"


def _is_peoples(file: str) -> bool:
    """A definition file of the workspace: no library, nothing of Python's or Java's own."""
    return bool(_CODE.match(file)) and not _FOREIGN.match(file)


def _raised(class_name: str, message: str, *, traced: bool) -> tuple[str, str]:
    last = message.rsplit("\n", 1)[-1].strip()
    if traced and (found := _RAISED.match(last)):
        class_name, message = found[1], found[2] or ""
    kind = class_name.rsplit(".", 1)[-1] or "Error"
    says = "" if message == class_name else _PLACE_AGAIN.sub("", first_sentence(message))
    return kind, says


def _number(value: object) -> int | None:
    return read_whole(value) or None
