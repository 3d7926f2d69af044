"""What a runner reports, as far as it may be believed: the pipeline's code has the same pipe and can write into it.

A report is one line of JSON with a `kind` and that kind's fields. Lines are bounded, kinds and fields checked, and so
is how many of them one runner sends; anything else is a `BadReport`, which ends that runner, and no other one.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from recovery.bounded import read_json

LONGEST_LINE: Final = 16 * 1024 * 1024  # bytes
LONGEST_TEXT: Final = 100_000  # characters of one message; a runner cuts its own
MOST_LINKS: Final = 10  # exceptions of one error
MOST_FRAMES: Final = 20
MOST_IN_REPORT: Final = 10_000  # values of JSON
MOST_REPORTS: Final = 50_000  # of one runner: some ten for each flow, and few pipelines have a thousand
MOST_BYTES: Final = 128 * 1024 * 1024  # of all of them
ONCE: Final = frozenset({"connected", "graph", "error", "done"})  # a second one would begin a step again
LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999
KINDS: Final[Mapping[str, Mapping[str, type]]] = {
    "connected": {"graph_id": str},
    "graph": {},
    "event": {"time_ms": int, "message": str},
    "error": {"phase": str, "exceptions": list},
    "done": {},
}
LINK: Final[Mapping[str, type]] = {"class_name": str, "message": str, "stack": list, "java": str}
FRAME: Final[Mapping[str, type]] = {"declaring_class": str, "method_name": str, "file_name": str}


class BadReport(Exception):
    """What came through a runner's pipe is no report.

    `code`: `too_long` (a line without end), `unreadable`, `too_many` (reports, or bytes of them), or `again` (a kind
    that comes once came twice).
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Reports:
    """The reports of one runner, counted."""

    def __init__(self) -> None:
        self.bytes = 0
        self.kinds: Counter[str] = Counter()

    def read(self, line: bytes) -> dict[str, Any]:
        """The next one. Raises BadReport."""
        self.bytes += len(line)
        if self.kinds.total() >= MOST_REPORTS or self.bytes > MOST_BYTES:
            raise BadReport("too_many")
        report = read_report(line)
        self.kinds[report["kind"]] += 1
        if report["kind"] in ONCE and self.kinds[report["kind"]] > 1:
            raise BadReport("again")
        return report


def read_report(line: bytes) -> dict[str, Any]:
    """The report in one line: its kind and its fields, and nothing else of it. Raises BadReport."""
    try:
        raw = read_json(line, most=MOST_IN_REPORT)
    except ValueError as error:
        raise BadReport("unreadable") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("kind"), str) or raw["kind"] not in KINDS:
        raise BadReport("unreadable")
    report = {"kind": raw["kind"], **_read_fields(raw, KINDS[raw["kind"]])}
    if report["kind"] == "event" and not 0 <= report["time_ms"] <= LAST_MS:
        raise BadReport("unreadable")
    if report["kind"] == "error":
        report["flow"] = _text_or_none(raw.get("flow"))
        report["exceptions"] = [_read_link(link) for link in report["exceptions"][:MOST_LINKS]]
    return report


def _read_link(raw: Any) -> dict[str, Any]:
    """One exception of an error."""
    link = _read_fields(raw, LINK)
    link["stack"] = [_read_frame(frame) for frame in link["stack"][:MOST_FRAMES]]
    return link


def _read_frame(raw: Any) -> dict[str, Any]:
    frame = _read_fields(raw, FRAME)
    number = raw.get("line_number")
    if number is not None and (not isinstance(number, int) or not 0 <= number < 2**31):
        raise BadReport("unreadable")
    return frame | {"line_number": number}


def _read_fields(raw: Any, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The fields of these types; a boolean is no number."""
    if not isinstance(raw, dict) or any(type(raw.get(name)) is not kind for name, kind in kinds.items()):
        raise BadReport("unreadable")
    return {name: _bound_text(raw[name]) if kind is str else raw[name] for name, kind in kinds.items()}


def _text_or_none(raw: Any) -> str | None:
    if raw is None:
        return None
    if not isinstance(raw, str):
        raise BadReport("unreadable")
    return _bound_text(raw)


def _bound_text(raw: str) -> str:
    """As every database can hold it, and bounded."""
    return raw[:LONGEST_TEXT].encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
