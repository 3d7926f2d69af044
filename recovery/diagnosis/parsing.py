"""Finds Spark's error conditions in a chain of causes.

`StreamingQueryException` always calls itself STREAM_FAILED, and user functions and task failures wrap
further: the reason is the innermost condition that the table knows. What is wrapped is often only text.
The input is from outside: it may be huge, empty or hostile, so it is cut before it is searched.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from recovery.contracts.diagnosis import ChainedError
from recovery.diagnosis import table
from recovery.diagnosis.row import ErrorRow
from recovery.diagnosis.table_pipelines import FAMILY as PIPELINES

TOKEN: Final = re.compile(r"\[([A-Z][A-Z0-9_]{1,120}(?:\.[A-Z0-9_]{1,120})?)\]")
WRAPPERS: Final = frozenset({"STREAM_FAILED", "PIPELINE_RUN_FAILED"})
WRAPPER_END: Final = "_USER_FUNCTION_ERROR"
LEVELS: Final = frozenset({"ERROR", "WARN", "INFO", "DEBUG", "TRACE", "FATAL"})
MOST_CAUSES: Final = 40
MOST_TEXT: Final = 12_000

Chain = Sequence[ChainedError] | str | None
"""What is searched: a chain of causes, outermost first, or a text alone."""


@dataclass(frozen=True)
class ErrorCondition:
    """One condition in a chain. `name`: Spark's, or the row's own code for a bare text. `cause`: its place."""

    name: str
    cause: int
    row: ErrorRow | None


def cut_chain(causes: Chain) -> list[ChainedError]:
    """The chain, outermost first, cut to a size that is quick to search.

    Of a long chain both ends are kept, of a long message as well: the reason is at one of them.
    """
    chain = [ChainedError(message=causes)] if isinstance(causes, str) else list(causes or ())
    if len(chain) > MOST_CAUSES:
        chain = [*chain[: MOST_CAUSES // 2], *chain[-MOST_CAUSES // 2 :]]
    return [
        ChainedError(
            class_name=_cut_middle(error.class_name, 500),
            message=_cut_middle(error.message),
            file=error.file and error.file[:400],
            line=error.line and error.line[:400],
        )
        for error in chain
    ]


def _cut_middle(text: str, most: int = MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n…\n{text[-most // 2 :]}"


def parse_conditions(causes: Chain, *, pipelines: bool = True) -> list[ErrorCondition]:
    """Conditions of a chain, outermost first, wrappers left out; the last one is the innermost.

    Texts count only where no cause carries a condition that the table knows. `pipelines`: whether the words of a
    pipeline's failures may be meant, which are common words in the log of any other program.
    """
    chain = cut_chain(causes)
    conditions = [
        ErrorCondition(name, at, table.row_of_condition(name))
        for at, cause in enumerate(chain)
        for name in _condition_tokens(cause)
    ]
    real = [c for c in conditions if not _is_wrapper(c.name)]
    if any(c.row for c in real):
        return real
    texts = [c for at, cause in enumerate(chain) for c in _match_texts(at, cause, pipelines=pipelines)]
    if texts:
        return [*real, *texts]
    return real or [c for c in conditions if c.row and c.name.endswith(WRAPPER_END)]


def innermost_condition(conditions: Iterable[ErrorCondition]) -> ErrorCondition | None:
    """The condition that tells the reason: the innermost that the table knows, else the innermost."""
    every = list(conditions)
    known = [c for c in every if c.row]
    chosen = known or every
    return chosen[-1] if chosen else None


def condition_of(causes: Chain) -> str:
    """The name of the reason, or "" when none is to be found."""
    condition = innermost_condition(parse_conditions(causes))
    return condition.name if condition else ""


def _condition_tokens(cause: ChainedError) -> list[str]:
    return [
        t for t in TOKEN.findall(cause.message) if t not in LEVELS and ("_" in t or table.row_of_condition(t))
    ]


def _match_texts(at: int, cause: ChainedError, *, pipelines: bool) -> list[ErrorCondition]:
    lowered = f"{cause.class_name}: {cause.message}".lower() if cause.class_name else cause.message.lower()
    may_be = pipelines or "sql.pipelines." in lowered
    row = next((row for row in table.rows_of_message(lowered) if may_be or row.family != PIPELINES), None)
    return [ErrorCondition(row.code, at, row)] if row else []


def _is_wrapper(name: str) -> bool:
    return name in WRAPPERS or name.endswith(WRAPPER_END)
