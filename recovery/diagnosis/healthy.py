"""The diagnosis of a flow that does not fail and that a person wants to go back in."""

from typing import Final

from recovery.contracts.diagnosis import Advice, Diagnosis, Storage
from recovery.contracts.names import Strategy

NOTHING_FAILS: Final = "nothing-fails"
"""Condition of a recovery that was opened though no failure is known."""


OF_FLOW: Final = (
    Advice(
        "Add the rows that the table lacks, once, from the input that was read (top-up), where some are missing.",
        strategy=Strategy.TOP_UP,
        undoable=True,
    ),
    Advice(
        "Delete the rows that the table has too often, once (deduplicate), where each is equal to one that stays.",
        strategy=Strategy.DEDUPLICATE,
        undoable=True,
    ),
    Advice(
        "Go back to the last batch whose rows are right (replay): the table is put back to it, and what came after "
        "it is read again. Repair the input or the code first.",
        strategy=Strategy.REPLAY,
        undoable=True,
    ),
    Advice(
        "Empty the table and read everything again (full-refresh), where no earlier batch is right.",
        strategy=Strategy.FULL_REFRESH,
        undoable=False,
    ),
)
OF_PROGRAM: Final = (
    Advice(
        "Read again from a start that you choose (continue with --position): the plan counts the rows that the table "
        "then has a second time. Take those out of it by hand.",
        strategy=Strategy.CONTINUE,
        undoable=True,
    ),
    Advice(
        "Or by hand, where all input is still there: with the stream stopped, move its table and its checkpoint away "
        "together, then start it.",
        undoable=False,
    ),
)


def diagnose_healthy(*, state: str, storage: Storage, program: bool = False) -> Diagnosis:
    """What is known of a flow in this state (`Flow.state`) that was not opened for a failure: no more than that.

    `program`: of a plain stream, whose table no recovery tops up, puts back or empties."""
    advice = OF_PROGRAM if program else OF_FLOW
    return Diagnosis(
        condition=NOTHING_FAILS,
        title="Nothing is known to fail; a person asked to go back.",
        says=f"The flow is {state}. Which rows are wrong, and why, was not diagnosed: the person knows.",
        severity=1,
        do=tuple(item.says for item in advice),
        dont=("Go back further than the rows that are wrong.",),
        advice=advice,
        storage=storage,
    )
