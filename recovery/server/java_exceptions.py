"""Java's printed exceptions as chains of causes, outermost first.

`QueryTerminatedEvent.exception` of Spark's event log is what `Throwable.printStackTrace` prints; its nested
`Caused by:` parts hold the condition that a responder needs, while the outermost only says STREAM_FAILED.
"""

import re
from typing import Any

from recovery.numbers import whole

FRAME = re.compile(r"\s*at (?:[\w.$]+/)*(?:(?P<module>[\w.@]+)/)?(?P<call>[^\s(]+)\((?P<where>[^)]*)\)\s*\Z")
HEAD = re.compile(r"(?P<class>(?:[A-Za-z_$][\w$]*\.)+[A-Za-z_$][\w$]*)(?:: ?(?P<message>.*))?\Z", re.DOTALL)
MORE = re.compile(r"\s*\.\.\. \d+ (?:more|common frames omitted)\s*\Z")
STACK_LIMIT = 20
MESSAGE_LIMIT = 20_000
MOST_LINKS = 50


def parse_frame(line: str) -> dict[str, Any] | None:
    """One `at class.method(File.scala:10)` line in the API's shape, or None when it is none."""
    match = FRAME.match(line)
    if not match:
        return None
    declaring, _, method = match["call"].rpartition(".")
    file_name, _, number = match["where"].rpartition(":")
    where: dict[str, Any] = {"declaring_class": declaring, "method_name": method}
    if (line_number := whole(number)) is not None:
        return where | {"file_name": file_name, "line_number": line_number}
    return where | {"file_name": match["where"]}


def build_exception(text: str, stack: list[dict[str, Any]]) -> dict[str, Any]:
    """`class: message` and its frames in the API's shape."""
    head = HEAD.match(text.strip())
    name, message = (head["class"], head["message"] or "") if head else ("", text.strip())
    return {"class_name": name, "message": message[:MESSAGE_LIMIT], "stack": stack[:STACK_LIMIT]}


def parse_chain(text: str) -> list[dict[str, Any]]:
    """[{class_name, message, stack[<= 20]}] of a printed exception, outermost first; empty for no text.

    Of more than MOST_LINKS the first and the last are kept: the last one is the reason.
    """
    chain: list[dict[str, Any]] = []
    head: list[str] = []
    stack: list[dict[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("Caused by: "):
            chain.append(build_exception("\n".join(head), stack))
            head, stack = [line.removeprefix("Caused by: ")], []
        elif (frame := parse_frame(line)) is not None:
            stack.append(frame)
        elif not MORE.match(line) and not stack:
            head.append(line)
    if "".join(head).strip():
        chain.append(build_exception("\n".join(head), stack))
    said = [link for link in chain if link["class_name"] or link["message"]]
    return said if len(said) <= MOST_LINKS else [*said[: MOST_LINKS // 2], *said[-MOST_LINKS // 2 :]]
