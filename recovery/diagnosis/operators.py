"""Stateful operators: Spark's names for them, the words of the API that people wrote, and how two sets differ."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# `shortName` of the operators in Spark's statefulOperators.scala, and what creates them.
WORDS: Final[dict[str, str]] = {
    "dedupe": "dropDuplicates",
    "dedupeWithinWatermark": "dropDuplicatesWithinWatermark",
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "session window aggregation",
    "symmetricHashJoin": "stream-stream join",
    "globalLimit": "limit",
    "flatMapGroupsWithState": "flatMapGroupsWithState",
    "applyInPandasWithState": "applyInPandasWithState",
    "transformWithStateExec": "transformWithState",
    "transformWithStateInPySparkExec": "transformWithState",
    "transformWithStateInPandasExec": "transformWithState",
}
CODE_HINTS: Final[dict[str, tuple[str, ...]]] = {
    "dropDuplicates": ("dropDuplicates(", "drop_duplicates(", "DISTINCT", "distinct("),
    "dropDuplicatesWithinWatermark": ("dropDuplicatesWithinWatermark(",),
    "aggregation": ("groupBy(", ".agg(", "GROUP BY", "groupby("),
    "session window aggregation": ("session_window(",),
    "stream-stream join": (".join(", " JOIN "),
    "limit": (".limit(", "LIMIT "),
}
_PAIR: Final = re.compile(r"OperatorId: (\d{1,6}) -> OperatorName: ([A-Za-z0-9_$]{1,100})")


@dataclass(frozen=True)
class Operators:
    """Spark's operator names by id, in the checkpoint and in the code; None where no one could say."""

    checkpoint: tuple[str, ...] | None = None
    code: tuple[str, ...] | None = None


def from_text(message: str) -> Operators:
    """Both sides as the mismatch error prints them: `[(OperatorId: 0 -> OperatorName: dedupe)]` and `[]`.

    Source: StreamingErrors.statefulOperatorNotMatchInStateMetadataError.
    """
    _, parts, rest = message.partition("Stateful operators in the metadata:")
    if not parts:
        return Operators()
    old, parts, new = rest.partition("Stateful operators in current batch:")
    if not parts:
        return Operators(checkpoint=_names_in_order(old))
    return Operators(checkpoint=_names_in_order(old), code=_names_in_order(new))


def _names_in_order(text: str) -> tuple[str, ...]:
    inside = text[:20_000].partition("]")[0]  # wrappers repeat the message behind it
    return tuple(name for _, name in sorted((int(i), n) for i, n in _PAIR.findall(inside)))


def operator_word(name: str) -> str:
    """People's word for an operator; Spark's own name for one that we do not know."""
    return WORDS.get(name, name)


def list_operators(names: Iterable[str]) -> str:
    """`dropDuplicates and aggregation`; "no stateful step" for none."""
    words = [operator_word(n) for n in names]
    if not words:
        return "no stateful step"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def missing_operators(from_names: Iterable[str], in_names: Iterable[str]) -> list[str]:
    """Names of the first that the second has fewer of; sorted."""
    return sorted((Counter(from_names) - Counter(in_names)).elements())


def mismatch_title(operators: Operators, *, stream: str = "flow") -> str | None:
    """The difference in one sentence, or None when one side is not known. `stream`: what Spark refuses to start."""
    if operators.checkpoint is None or operators.code is None:
        return None
    gone, new = (
        missing_operators(operators.checkpoint, operators.code),
        missing_operators(operators.code, operators.checkpoint),
    )
    refuses = f"so Spark refuses to start the {stream}."
    if gone and not new:
        return f"The code no longer has the {_name_steps(gone)} whose state is stored in the checkpoint, {refuses}"
    if new and not gone:
        return f"The code has a new {_name_steps(new)} for which the checkpoint stores no state, {refuses}"
    if gone and new:
        stored = list_operators(gone)
        return f"The code has the {_name_steps(new)} where the checkpoint stores the state of {stored}, {refuses}"
    return f"The code has its stateful steps in another order than the checkpoint, {refuses}"


def _name_steps(names: list[str]) -> str:
    return f"{list_operators(names)} step{'s' if len(names) > 1 else ''}"


def changed_lines(old_text: str, new_text: str, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Code lines with one of these operators that were taken out, and that were put in; at most five each."""
    hints = tuple(h for n in names for h in CODE_HINTS.get(operator_word(n), (f"{operator_word(n)}(",)))
    old, new = old_text.splitlines()[:20_000], new_text.splitlines()[:20_000]
    in_old, in_new = set(old), set(new)
    gone = [line.strip() for line in old if line not in in_new and any(h in line for h in hints)]
    came = [line.strip() for line in new if line not in in_old and any(h in line for h in hints)]
    return gone[:5], came[:5]
