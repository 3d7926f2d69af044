"""Our own sentences in the words of a plain program, which has no flows, updates, full refresh or wizard. Pure."""

import re
from typing import Final

#: what only a pipeline has -> what its owner would do to a program of their own; longer ones first
PHRASES: Final[tuple[tuple[str, str], ...]] = (
    (
        "Then start an update of the pipeline; checkpoints stay as they are.",
        "Then start the program again; its checkpoint stays as it is.",
    ),
    (
        "a full refresh rebuilds the table",
        "empty the table and its checkpoint together and read all input again",
    ),
    (
        "Empty the table and read all input again.",
        "Empty the table and its checkpoint together, then read all input again.",
    ),
    ("Take no full refresh:", "Do not begin again with an empty checkpoint:"),
    ("take a full refresh", "begin again with an empty table and an empty checkpoint"),
    ("while an update was reading it", "while the program was reading it"),
    ("give the pipeline the right", "give the program the right"),
    ("the pipeline's own code", "the program's own code"),
    ("of the pipeline", "of the program"),
    ("step 3 counts them", "count them first"),
)
_FLOW: Final = re.compile(r"\b([Ff])low(s?)\b")


def for_program(text: str) -> str:
    """One of our sentences for a person who has a program and no pipeline. Never for what Spark or their code says."""
    for ours, theirs in PHRASES:
        text = text.replace(ours, theirs)
    return _FLOW.sub(_query, text)


def _query(found: re.Match[str]) -> str:
    word = "queries" if found[2] else "query"
    return word.capitalize() if found[1] == "F" else word
