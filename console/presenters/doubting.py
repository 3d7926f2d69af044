"""What speaks against a flow whose last update ended well: no light is green over it. Pure over rows already read."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.presenters import status, words
from recovery.models import Flow, Recovery
from recovery.pipelines.retention import Standing


@dataclass(frozen=True)
class Doubt:
    """`code`: for `data-code`; `word`: beside *OK* in the badge; `title` and `text`: in place of the good news."""

    code: str
    word: str
    title: str
    text: str


PROVING: Final = ("succeeded", "unproven", "failed", "needs_attention")
"""States of recoveries by whose newest the flow's table is proven, or is not."""


def find_doubt(flow: Flow, newest: Recovery | None, unread: Standing | None, now: datetime) -> Doubt | None:
    """The gravest one; None where the flow is not *ok*, which says enough, or nothing speaks against it.

    `newest`: of the flow's recoveries in one of the states `PROVING`. `unread`: how long its unread input can be read.
    """
    if flow.state != "ok":
        return None
    run = flow.pipeline.workspace.run_noun
    if unread is Standing.GONE:
        return Doubt(
            "input-gone",
            "input gone",
            f"This flow's last {run} ended well, but input that it had not read is gone.",
            "Rows of that input are in no table. See Unread input for the source and how much is gone.",
        )
    return _not_proven(flow, newest) or _passed_over(unread, run) or _not_asked(flow, now)


def _not_proven(flow: Flow, newest: Recovery | None) -> Doubt | None:
    """A recovery without proof leaves the table in doubt until one proves it, or it is written again from scratch."""
    if newest is None or newest.state == "succeeded":
        return None
    if flow.renewed_at and newest.ended_at and flow.renewed_at > newest.ended_at:
        return None
    run = flow.pipeline.workspace.run_noun
    criteria = newest.proof.criteria if newest.proof else ()
    wrong = sum(criterion.ok is False for criterion in criteria)
    unknown = sum(criterion.ok is None for criterion in criteria)
    text = (
        f"Of {words.format_count(len(criteria), 'criterion', 'criteria')} {wrong} did not hold and {unknown} could not "
        "be measured."
        if criteria
        else "Nothing was measured."
    )
    return Doubt(
        "not-proven",
        "not proven",
        f"This flow's last {run} ended well, but {newest.label} has not proven its table.",
        f"{text} A good end does not show whether rows are missing or there twice.",
    )


def _passed_over(unread: Standing | None, run: str) -> Doubt | None:
    if unread is not Standing.PASSED:
        return None
    return Doubt(
        "passed-over",
        "files passed over",
        f"This flow's last {run} ended well, but it passed over files.",
        "They are too old for its source's settings, so their rows are in no table. See Unread input.",
    )


def _not_asked(flow: Flow, now: datetime) -> Doubt | None:
    """The row is as old as the last poll that succeeded."""
    workspace = flow.pipeline.workspace
    if not workspace.poll_error and workspace.polled_at:
        return None
    last = (
        f"Its last {workspace.run_noun} ended well, as of {words.format_clock(workspace.polled_at, now)}. "
        if workspace.polled_at
        else ""
    )
    return Doubt(
        "not-asked",
        "not polled since",
        "The state of this flow now is not known.",
        f"{last}Workspace {workspace.name} did not answer the last poll. {workspace.poll_error}".strip(),
    )


def doubt_badge(doubt: Doubt) -> status.Badge:
    """`OK, not proven`."""
    return status.Badge("attention", f"OK, {doubt.word}")
