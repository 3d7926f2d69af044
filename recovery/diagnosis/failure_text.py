"""Reads the last failure out of a text that a person has: a driver's log, a stack trace, an error of py4j. Pure.

The text is from outside: it may be megabytes long, without any line end, or no log at all. It is cut before it is
searched, and each line is looked at once, in time proportional to its length.

A log tells one failure several times: as a warning of each lost task, as the error of the query, as the exception that
ends the program. The query's own is the one that counts; where it hides its cause, what the same run logged before it
is read too. What an earlier run of the program left in the same file is not.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from recovery.blaming import find_code_failure
from recovery.contracts.diagnosis import ChainedError
from recovery.diagnosis import parsing

MOST_CHARACTERS: Final = 8 << 20
"""Of a longer text the end is read."""
LONGEST_LINE: Final = 64_000
MOST_LINES_OF_MESSAGE: Final = 200
MOST_BLOCKS: Final = 200
MOST_LINES: Final = 200_000
MOST_LOOSE: Final = 2_000

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_IDS: Final = re.compile(rf"\[?id = ({_UUID}), runId = ({_UUID})")
_STORED: Final = re.compile(
    rf"id = {_UUID}, runId = ({_UUID})\]\. Use (\S{{1,1000}}) to store the query checkpoint"
)
_PREFIXES: Final = (
    re.compile(r"\[\d{4}-\d\d-\d\d[^\]\n]{0,40}\] \{[^}\n]{0,80}\} [A-Z]{4,8} - "),  # Airflow
    re.compile(
        r"\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d)? (?:(?:stdout|stderr) [FP] )?"
    ),  # Kubernetes
    re.compile(r"[\w.-]{1,60} {0,20}\| "),  # Compose
    re.compile(r"\[info\] {1,2}"),  # sbt
)
_ANSI: Final = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_LEVEL: Final = re.compile(r"\b(ERROR|FATAL|WARN|WARNING|INFO|DEBUG|TRACE)\b")
_CLOCK: Final = re.compile(r"\d\d:\d\d")
_FRAME: Final = re.compile(r"\s*(?:at \S{1,400}\(|\.\.\. \d{1,6} (?:more|common frames))")
_CLASS: Final = r"(?:[A-Za-z_$][\w$]{0,100}\.){1,20}[A-Z][\w$]{0,200}"
_HEAD: Final = re.compile(
    rf"\s{{0,8}}(?:(?:(Caused by|Cause): )|: |Exception in thread \"[^\"\n]{{0,200}}\" )?"
    rf"({_CLASS})(?::(?: (.*))?|\s*)$",
    re.DOTALL,
)
_INSIDE: Final = re.compile(rf"(?:^|[ :(])({_CLASS}(?:Exception|Error|Throwable)): (.*)$", re.DOTALL)
_THROWN: Final = re.compile(r"(?:Exception|Error|Throwable|Failure|Interrupt|Exit|Warning)$")
_SPARK_OWN: Final = re.compile(r"(?:org\.apache\.(?:spark|iceberg|kafka)|io\.delta|pyspark|py4j)\.")
_PYTHON: Final = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: (.*))?$", re.DOTALL)
_QUOTES: Final = re.compile(r"PythonException|PythonProxy|Python (?:Proxy|worker)|Py4JException")
_BEGINS: Final = re.compile(r"Running Spark version \d")
_STREAMING: Final = re.compile(
    r"StreamingQueryException|\[STREAM_FAILED\]|terminated with (?:error|exception)|=== Streaming Query ==="
    r"|\.(?:StreamExecution|MicroBatchExecution|ContinuousExecution)\b"
)
_OF_SPARK: Final = re.compile(
    r"org\.apache\.spark\.(?!deploy\.)|pyspark|py4j|io\.delta|kafka010|\[[A-Z]{2,40}_[A-Z0-9_.]{2,120}\]"
)
_ESCAPED: Final = re.compile(r"\\n(?:\\t| {2,8})?(?:at |Caused by: |=== Streaming Query)")
QUIET: Final = frozenset({"INFO", "DEBUG", "TRACE"})
WARNINGS: Final = frozenset({"WARN", "WARNING"})
FRAMEWORK: Final = ("pyspark.", "py4j.")


@dataclass(frozen=True)
class FailureText:
    """The last failure of a text."""

    #: outermost first
    causes: tuple[ChainedError, ...] = ()
    #: of the query that it names, as `run_id` is; "": none
    query_id: str = ""
    run_id: str = ""
    #: where that run's log places it
    checkpoint: str = ""
    #: Spark has to do with it at all
    is_spark: bool = False
    #: people's own Python raised it
    is_code: bool = False
    #: Spark logged it only as a warning
    is_warning: bool = False
    #: the beginning of the text was not read
    is_cut: bool = False


@dataclass
class _Throwable:
    class_name: str
    lines: list[str]

    def as_error(self) -> ChainedError:
        return ChainedError(class_name=self.class_name, message="\n".join(self.lines).strip())


@dataclass
class _Block:
    """What was printed of one failure. `application`: the how-manieth start of Spark in the text it belongs to."""

    level: str
    application: int
    throwables: list[_Throwable] = field(default_factory=list)
    is_streaming: bool = False
    is_spark: bool = False
    query_id: str = ""
    run_id: str = ""
    #: whether a stack has begun: what follows is no longer the message
    in_stack: bool = False
    #: whether a traceback of Python is being read, whose last line names what was raised
    in_traceback: bool = False
    of_python: bool = False
    #: below "Suppressed:"
    skips: bool = False

    @property
    def causes(self) -> list[ChainedError]:
        return [t.as_error() for t in self.throwables]

    @property
    def is_known(self) -> bool:
        condition = parsing.innermost_condition(parsing.parse_conditions(self.causes, pipelines=False))
        return condition is not None and condition.row is not None


def read_failure(text: str) -> FailureText:
    """The last failure in a text; without causes where there is none."""
    is_cut = len(text) > MOST_CHARACTERS
    reader = _Reader()
    lines = [raw for raw in text[-MOST_CHARACTERS:].split("\n") if raw and not raw.isspace()]
    is_cut = is_cut or len(lines) > MOST_LINES
    for line in _iterate_lines(lines[-MOST_LINES:]):
        reader.take(line)
    blocks = list(reader.blocks)
    chosen = _choose_block(blocks)
    if chosen is None:
        return _without_exception(reader.loose, is_cut=is_cut)
    causes = _join_causes(chosen, blocks)
    return FailureText(
        causes=tuple(causes),
        query_id=chosen.query_id,
        run_id=chosen.run_id,
        checkpoint=reader.stored.get(chosen.run_id, ""),
        is_spark=chosen.is_streaming or chosen.is_spark,
        is_code=find_code_failure(causes) is not None,
        is_warning=chosen.level in WARNINGS,
        is_cut=is_cut,
    )


def _choose_block(blocks: Sequence[_Block]) -> _Block | None:
    """The query's own failure in the last run of the program that failed, else the last that the table knows, else the
    last; what is a warning only where there is nothing else."""
    for application in sorted({b.application for b in blocks}, reverse=True):
        of_run = [b for b in reversed(blocks) if b.application == application]
        errors = [b for b in of_run if b.level not in WARNINGS]
        chosen = (
            next((b for b in errors if b.is_streaming), None)
            or next((b for b in errors if b.is_known), None)
            or next((b for b in errors if b.is_spark), None)
            or next(iter(errors), None)
            or next((b for b in of_run if b.is_known), None)
        )
        if chosen is not None:
            return chosen
    return None


def _join_causes(chosen: _Block, blocks: Sequence[_Block]) -> list[ChainedError]:
    """Its causes; where the table knows none of them, those that the same run logged before it as well."""
    causes = chosen.causes
    if chosen.is_known or not chosen.is_streaming:
        return causes
    for block in reversed(blocks[: blocks.index(chosen)]):
        if block.application != chosen.application:
            break
        if block.run_id and chosen.run_id and block.run_id != chosen.run_id:
            break
        if block.is_known or find_code_failure(block.causes):
            return [*causes, *block.causes]
    return causes


class _Reader:
    """Goes through the lines once and keeps what was printed of failures."""

    def __init__(self) -> None:
        self.blocks: deque[_Block] = deque(maxlen=MOST_BLOCKS)
        self.stored: dict[str, str] = {}
        self.loose: list[str] = []
        self.application = 0
        self.level = ""
        self.header = ""
        self.open: _Block | None = None

    def take(self, line: str) -> None:
        """The next line, without what a runner put before it."""
        if _BEGINS.search(line):
            self.application += 1
        if match := _STORED.search(line):
            self.stored[match[1]] = match[2]
        level, said = _split_log_line(line)
        if level:
            self.begin_line(level, line, said)
        elif line.startswith("Traceback (most recent call last):") and not self._in_message():
            if self.level in WARNINGS:
                self.level = ""  # what a program prints as it ends belongs to no line of the log
            block = self.begin(line)
            block.in_traceback = block.of_python = True
        elif not self.go_on(line) and (head := _parse_throwable(line)):
            self.begin(line).throwables.append(head)
        if self.open is not None:
            self.note(self.open, line)

    def begin_line(self, level: str, line: str, said: str) -> None:
        """A line of the log itself: it ends what came before; a failure may follow in it or below it."""
        self.open, self.level, self.header = None, level, "" if level in QUIET else line
        if level in QUIET:
            return
        inside = _INSIDE.search(said[:LONGEST_LINE])
        if inside:
            self.begin(line).throwables.append(_Throwable(inside[1], [inside[2]]))
        elif level not in WARNINGS:
            self.loose.append(said)

    def begin(self, line: str) -> _Block:
        """What is printed from here on is one failure."""
        block = _Block(self.level, self.application)
        if self.header:
            self.note(block, self.header)
        self.blocks.append(block)
        self.open, self.header = block, ""
        return block

    def _in_message(self) -> bool:
        """Is the message of an exception of Java being read that quotes Python? A traceback there is what it says."""
        block = self.open
        if block is None or not block.throwables or block.in_stack or block.of_python:
            return False
        last = block.throwables[-1]
        return bool(_QUOTES.search(f"{last.class_name} {' '.join(last.lines[-5:])}"))

    def go_on(self, line: str) -> bool:
        """Take a line into the failure that is open; False where it belongs to none."""
        block = self.open
        if block is None:
            if self.level not in (QUIET | WARNINGS):
                self.loose.append(line)
            return False
        if block.in_traceback:
            self._in_python(block, line)
            return True
        if line.lstrip().startswith("Suppressed:"):
            block.skips = block.in_stack = True
            return True
        head = _parse_throwable(line)
        if head is not None and _is_cause(line):
            if not (block.skips and line[:1].isspace()):
                block.throwables.append(head)
                block.in_stack = block.skips = False
            return True
        if head is not None and block.in_stack:
            self.open = None
            return False
        if _FRAME.match(line):
            block.in_stack = True
            return True
        if (
            not block.in_stack
            and block.throwables
            and len(block.throwables[-1].lines) < MOST_LINES_OF_MESSAGE
        ):
            block.throwables[-1].lines.append(line)
        return True

    def _in_python(self, block: _Block, line: str) -> None:
        """A line of a traceback; the first that is not indented names what was raised."""
        if not block.throwables:
            block.throwables.append(_Throwable("", []))
        throwable = block.throwables[-1]
        if line[:1].isspace() or not line.strip() or len(throwable.lines) >= MOST_LINES_OF_MESSAGE:
            throwable.lines.append(line)
            return
        match = _PYTHON.match(line)
        throwable.class_name = match[1] if match else ""
        # of Spark's own wrappers the place in the program says nothing: the reason is what they carry
        is_framework = throwable.class_name.startswith(FRAMEWORK)
        throwable.lines = [match[2] or ""] if match and is_framework else [*throwable.lines, line]
        block.in_traceback = False

    def note(self, block: _Block, line: str) -> None:
        """Whose failure it is, by what is printed of it."""
        text = line[:LONGEST_LINE]
        block.is_streaming = block.is_streaming or bool(_STREAMING.search(text))
        block.is_spark = block.is_spark or bool(_OF_SPARK.search(text))
        if not block.query_id and (match := _IDS.search(text)):
            block.query_id, block.run_id = match[1], match[2]


def _without_exception(lines: Sequence[str], *, is_cut: bool) -> FailureText:
    """Of a text in which no exception is printed: the sentences of it, or of a long one the last that the table knows
    with what follows."""
    whole = "\n".join(lines)
    if len(whole) > parsing.MOST_TEXT:
        known = (
            at for at in range(len(lines) - 1, max(-1, len(lines) - MOST_LOOSE), -1) if _is_known(lines[at])
        )
        at = next(known, None)
        whole = "" if at is None else "\n".join(lines[at : at + 20])
    is_spark = bool(_STREAMING.search(whole) or ("SQLSTATE" in whole and _OF_SPARK.search(whole)))
    if not (is_spark or _is_known(whole)):
        return FailureText(is_cut=is_cut)
    ids = _IDS.search(whole)
    query, run = (ids[1], ids[2]) if ids else ("", "")
    return FailureText((ChainedError(message=whole.strip()),), query, run, is_spark=is_spark, is_cut=is_cut)


def _is_known(text: str) -> bool:
    condition = parsing.innermost_condition(parsing.parse_conditions(text, pipelines=False))
    return condition is not None and condition.row is not None


def _is_cause(line: str) -> bool:
    """Does this line go on with the chain of the exception above it? py4j prints Java's own below its own."""
    return line.lstrip().startswith(("Caused by: ", "Cause: ", ": "))


def _parse_throwable(line: str) -> _Throwable | None:
    """The exception that a line names at its beginning."""
    match = _HEAD.match(line[:LONGEST_LINE])
    if match is None:
        return None
    is_named = bool(_THROWN.search(match[2])) or (match[3] is not None and bool(_SPARK_OWN.match(match[2])))
    if not (match[1] or is_named):
        return None
    return _Throwable(match[2], [match[3] or ""])


def _split_log_line(line: str) -> tuple[str, str]:
    """Level of a line of a log and what follows it; two empty texts for another line."""
    head = line[:200]
    match = _LEVEL.search(head)
    if match is None or not _CLOCK.search(head[: match.start()]):
        return "", ""
    return match[1], line[match.end() :]


def _iterate_lines(lines: Sequence[str]) -> Iterator[str]:
    """Each line without what runners put before it; a line that holds several, as these."""
    for raw in lines:
        line = raw.rstrip("\r")
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        if line.startswith("{") and line.rstrip().endswith("}") and (held := _from_json(line)) is not None:
            yield from held
            continue
        for prefix in _PREFIXES:
            if match := prefix.match(line):
                rest = line[match.end() :]
                line = rest if not _LEVEL.match(rest) else line
                break
        if _ESCAPED.search(line[:LONGEST_LINE]):
            yield from line.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').split("\n")
        else:
            yield line


def _from_json(line: str) -> list[str] | None:
    """A line of a log in JSON (Spark 4's own, a container's) or of an event log, as lines of text; None for others."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    if isinstance(entry.get("log"), str):
        return str(entry["log"]).rstrip("\n").split("\n")
    stamp, level = entry.get("ts") or entry.get("timestamp") or "", entry.get("level") or ""
    lines: list[str] = []
    if isinstance(level, str) and level and isinstance(entry.get("msg", entry.get("message")), str):
        clock = stamp if isinstance(stamp, str) and _CLOCK.search(stamp) else "00:00:00"
        lines += f"{clock} {level.upper()} {entry.get('msg', entry.get('message'))}".split("\n")
    thrown = entry.get("exception")
    if isinstance(thrown, str):
        ids = f"[id = {entry.get('id')}, runId = {entry.get('runId')}]"
        head = [f"00:00:00 ERROR Query {ids} terminated with error"] if entry.get("runId") else []
        return [*lines, *head, *thrown.split("\n")]
    return lines + _unfold_structured(thrown) if isinstance(thrown, dict) else lines or None


def _unfold_structured(thrown: dict[str, Any]) -> list[str]:
    """`exception` of Spark 4's structured log: class, msg and stacktrace, which holds the causes in its text form."""
    stack = thrown.get("stacktrace")
    head = f"{thrown.get('class') or 'java.lang.Throwable'}: {thrown.get('msg') or ''}".split("\n")
    if isinstance(stack, str):
        return (
            stack.split("\n")
            if stack.strip().startswith(str(thrown.get("class")))
            else head + stack.split("\n")
        )
    return head
