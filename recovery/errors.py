"""Outcomes that people must be told apart: refused, unreachable, and everything else (a bug).

Each carries one clear sentence that says what to do. `code` is stable and goes into the audit log.
"""


class RepriseError(Exception):
    """Base of every expected failure. `sentence` is shown to people as it stands.

    `flags`: options of the command line with which the same call goes on; () where none does.
    """

    code = "error"
    exit_code = 1

    def __init__(self, sentence: str, *, code: str | None = None, flags: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.flags = flags
        if code:
            self.code = code


class Refused(RepriseError):
    """The answer is no: a rule, a stale plan, a blocked strategy. Nothing was changed."""

    code = "refused"


class Denied(Refused):
    """The person may not do this."""

    code = "denied"


class NotFound(RepriseError):
    """No such pipeline, flow or recovery, or more than one of that name."""

    code = "not_found"
    exit_code = 2


class WrongUse(RepriseError):
    """The call itself is wrong: a bad option, a missing token."""

    code = "wrong_use"
    exit_code = 2


class Unreachable(RepriseError):
    """A part that the answer needs does not answer: API, Spark, storage, broker, database."""

    code = "unreachable"
    exit_code = 2


class InputMissing(Unreachable):
    """Its place answered, and what the answer needs is not there: to ask again by itself would help no one."""


class Interrupted(RepriseError):
    """What was waited for was cut off from outside: the process or the machine that it ran on ended."""

    code = "interrupted"


class OutcomeUnknown(RepriseError):
    """An act was sent and no one saw how it ended. Never repeated by itself."""

    code = "unknown"
