"""One line of the error table: what Spark says, what it means, what to do and what never to do."""

import re
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Final

from recovery.contracts.diagnosis import Advice

GAP: Final = r"[^\n]{0,300}?"

EMPTY: Final = (
    "Do not reset to an empty checkpoint: everything would be read again, and a table of files silently skips "
    "new rows when batch numbers start again."
)
DELETE: Final = "Do not delete the checkpoint folder: it is the only record of what was already processed."
AGAIN: Final = (
    "Do not just start it again: it fails the same way each time, and a failed start may plan more batches."
)
KEEP: Final = (EMPTY, DELETE)


@dataclass(frozen=True)
class PipelineWay:
    """A way on that only a flow of a pipeline has. `of_program`: what a plain program can do in its place; "": nothing,
    as its table is not put back to a batch, and its state is not replayed."""

    says: str
    of_program: str = ""


WITHOUT_STATE: Final = (
    "Otherwise go back in the input and build the state again (reread), let it start empty (prime), or, if the code "
    "keeps none, continue with a seeded checkpoint."
)
BACK: Final = PipelineWay(
    "Otherwise go back to a batch whose state files are whole, if the source still has what came after it."
)
ONLY_BACK: Final = PipelineWay(
    "Go back to a batch whose state files are whole, if the source still has what came after it.",
    "Restore the state files from a backup or from the storage's object versions.",
)
BACK_OR_WITHOUT: Final = PipelineWay(
    "Otherwise go back to a batch whose files are whole, or continue with a seeded checkpoint without state.",
    WITHOUT_STATE,
)
WITHOUT: Final = PipelineWay(
    "Otherwise rebuild the state, or continue with a seeded checkpoint without it.", WITHOUT_STATE
)

RESET_NO: Final = "no"
RESET_LATER: Final = "only if the gentler steps fail"
RESET_YES: Final = "yes, seeded with the known progress"

SEVERITIES: Final[dict[int, str]] = {
    1: "a fact",
    2: "fix and start again",
    3: "waits for your decision",
    4: "something is damaged",
    5: "data is at risk",
}


@dataclass(frozen=True)
class ErrorRow:
    """`code`: Spark's condition, or a lower-case name of ours where Spark gives none.

    conditions: Spark's names (`*` allowed). texts: alternatives, each a run of literal parts that must
    follow one another in one line, lower case. exact: a whole message. severity: one of SEVERITIES. do: an Advice
    where it hangs on whether a change was meant, or a strategy does it; a PipelineWay where a plain program has another
    way or none; else the sentence.
    """

    code: str
    family: str
    title: str
    damaged: str
    reset: str
    severity: int
    do: tuple[str | Advice | PipelineWay, ...]
    dont: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    texts: tuple[tuple[str, ...], ...] = ()
    exact: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)
    globs: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        compiled = tuple(re.compile(GAP.join(re.escape(part) for part in parts)) for parts in self.texts)
        object.__setattr__(self, "patterns", compiled)
        object.__setattr__(
            self, "globs", tuple(re.compile(translate(c)) for c in self.conditions if "*" in c)
        )

    def list_advice(self, *, program: bool = False) -> list[Advice]:
        """What to do, safest first. `program`: in a plain program."""
        advice = []
        for item in self.do:
            says = (item.of_program if program else item.says) if isinstance(item, PipelineWay) else item
            if says:
                advice.append(says if isinstance(says, Advice) else Advice(says))
        return advice

    def names(self, condition: str) -> bool:
        """Is this Spark condition named by the row, itself or by a pattern?"""
        return condition in self.conditions or any(g.match(condition) for g in self.globs)

    def says(self, lowered: str) -> bool:
        """Does this lower-case message carry one of the row's texts?"""
        return lowered.strip() in self.exact or any(p.search(lowered) for p in self.patterns)
