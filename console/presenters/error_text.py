"""What the page of a pasted error text says beside the diagnosis. Pure."""

from console.presenters.wizard import TroubleAnswer
from console.presenters.wizard import trouble_summary as asks_of_flow
from recovery.contracts.diagnosis import Diagnosis
from recovery.contracts.facts import GatheredFacts
from recovery.diagnosis.advice import asks_meant

WAIT = TroubleAnswer(
    "Safe to wait?",
    "Not known",
    "Neither a text nor a checkpoint shows how long the source keeps unread input: check its retention. "
    "Waiting makes the table older, nothing else.",
    "not-known",
)


def answer_asks(diagnosis: Diagnosis, *, is_recognised: bool) -> list[TroubleAnswer]:
    """What happened, how bad, safe to wait: as on a flow's page, without what only a flow's facts tell."""
    what, bad, _ = asks_of_flow(diagnosis, GatheredFacts())
    return [what, bad if is_recognised else TroubleAnswer(bad.ask, "Not known", bad.text, "not-known"), WAIT]


def explain_order(diagnosis: Diagnosis) -> str:
    """In which order the ways on are shown, and what decides between them."""
    if asks_meant(diagnosis.advice):
        return "Which is right depends on whether the change was meant: only you know that."
    return "Safest first."
