"""How every process writes its log: JSON lines for machines or lines for people, one id through all of them.

No Django in here: gunicorn reads it before there is any. What looks like a secret is struck out of the
finished line, whoever logged it and however deep it is, tracebacks included.
"""

import re
from collections.abc import MutableMapping
from typing import Any, Final

import structlog
from structlog.types import Processor

from recovery import trace

OTHERS: Final = ("django", "django.server", "gunicorn.error", "celery", "celery.task")
"""Loggers that bring handlers of their own; they must write as all do."""
KEYS: Final = re.compile(r"token|secret|password|authorization|cookie|csrf", re.IGNORECASE)
VALUES: Final = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), r"\1 …"),
    (re.compile(r"\b(rp_|dapi)[A-Za-z0-9_-]{16,}"), r"\1…"),
    (re.compile(r"(://[^:/@\s\"']*):[^@/\s\"']+@"), r"\1:…@"),
    (
        re.compile(
            r"(?i)\b((?:access_?|auth_?)?token|password|passwd|secret(?:_?key)?|sig(?:nature)?)=[^\s&;,\"'\\]+"
        ),
        r"\1=…",
    ),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"), r"\1…"),
)


def add_ids(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The request's id, and the Celery task's where there is one."""
    if request_id := trace.current():
        event.setdefault("request_id", request_id)
    return event


def strike_keys(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Values whose name says that they are secret."""
    for key in event:
        if KEYS.search(key):
            event[key] = "…"
    return event


def strike_secrets(text: str) -> str:
    """A line without what looks like a secret."""
    for pattern, instead in VALUES:
        text = pattern.sub(instead, text)
    return text


class LineRenderer:
    """The last processor: the rendered line, secrets struck out."""

    def __init__(self, render: Any) -> None:
        self.render = render

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        return strike_secrets(str(self.render(logger, method, event)))


# Plain on purpose: where the package `rich` is there, structlog would print the local variables of every frame.
TEXT: Final = structlog.dev.ConsoleRenderer(
    colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
)


def list_processors(form: str) -> list[Processor]:
    """From a record to its line."""
    end = [LineRenderer(structlog.processors.JSONRenderer(ensure_ascii=False, default=str))]
    if form != "json":
        end = [LineRenderer(TEXT)]
    traceback: list[Processor] = [structlog.processors.format_exc_info] if form == "json" else []
    return [structlog.stdlib.ProcessorFormatter.remove_processors_meta, strike_keys, *traceback, *end]


def logging_config(form: str, level: str = "INFO") -> dict[str, Any]:
    """For `logging.config.dictConfig`. `form`: "json" or "text"."""
    before: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        add_ids,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": before,
        "processors": list_processors(form),
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            **{name: {"handlers": [], "propagate": True} for name in OTHERS},
            "gunicorn.access": {"handlers": [], "level": "WARNING"},  # it would tell of every poll of a page
        },
    }
