"""Why a sign-in, or the confirmation of one, is refused: a code that stays, and the words that people read."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class SignInProblem:
    #: the page carries it as `data-code`
    code: str
    #: a sentence or two: what is wrong, and what to do
    says: str

    def __str__(self) -> str:
        return self.says


#: the company's provider answered out of a session of its own
OLD_PROOF: Final = SignInProblem(
    "old-proof",
    "Not confirmed: the company account answered from an earlier sign-in without asking you. "
    "Sign out there, then try again.",
)
