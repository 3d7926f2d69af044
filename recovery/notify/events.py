"""The registry of what people can be notified of: a code for machines, words for screens, a title for each message."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class NotifiedEvent:
    """`words` name it where one subscribes; `title` takes the facts by name; `link` is where it leads without a
    recovery or a flow."""

    words: str
    title: str
    link: str = "/"


EVENTS: Final[dict[str, NotifiedEvent]] = {
    "approval.requested": NotifiedEvent(
        "A plan asks for approval", "Approval asked: {recovery} of {flow} in {environment}"
    ),
    "approval.decided": NotifiedEvent(
        "A request for approval was approved, rejected, voided, or expired",
        "{recovery} of {flow}: {decision}",
    ),
    "recovery.started": NotifiedEvent("A plan was started or resumed", "{recovery} of {flow} runs"),
    "recovery.needs_attention": NotifiedEvent(
        "A recovery needs a person", "{recovery} of {flow} needs a person"
    ),
    "recovery.succeeded": NotifiedEvent("A recovery was proven", "{recovery} of {flow} is proven"),
    "recovery.handed_over": NotifiedEvent(
        "A recovery has another owner", "{recovery} of {flow} is {owner}'s now"
    ),
    "recovery.unproven": NotifiedEvent(
        "A recovery was ended without proof", "{recovery} of {flow} was ended without proof"
    ),
    "recovery.rolled_back": NotifiedEvent(
        "A recovery was rolled back", "{recovery} of {flow} was rolled back"
    ),
    "recovery.break_glass": NotifiedEvent(
        "Someone bypassed the approval (break-glass)", "Break-glass: {recovery} of {flow} in {environment}"
    ),
    "flow.failed": NotifiedEvent("A flow has begun to fail", "{flow} fails in {environment}"),
    "flow.in_doubt": NotifiedEvent(
        "A flow lost or repeated rows, or may have, though no run failed", "{flow} in {environment}: {doubt}"
    ),
    "flow.table_differs": NotifiedEvent(
        "A table turned out to differ from its input, beyond what a plan accepted",
        "{flow}: its table differs from its input ({rows})",
    ),
    "pipeline.failed": NotifiedEvent(
        "A pipeline has begun to fail before or outside its flows", "{pipeline} fails in {environment}"
    ),
    "flow.retention": NotifiedEvent(
        "Unread input of a flow is about to be lost to retention, or is", "{flow}: unread input {unread}"
    ),
    "queue.late": NotifiedEvent(
        "Tasks wait: a worker is away or too slow",
        "Tasks of queue {queue} have waited for {seconds} s",
    ),
    "audit.broken": NotifiedEvent(
        "The audit log's chain is broken", "The audit log is not what was written", "/audit/chain"
    ),
    "channel.failing": NotifiedEvent(
        "Another channel cannot be delivered to",
        "Channel {channel} cannot be delivered to",
        "/settings/notifications",
    ),
    "channel.test": NotifiedEvent("A test message", "A test message from Reprise", "/settings/notifications"),
}

DECISIONS: Final = ("approved", "rejected", "expired", "voided")
"""What `approval.decided` may carry as its fact `decision`."""

SUBSCRIBED: Final = tuple(code for code in EVENTS if code != "channel.test")
"""What a channel can subscribe to; a test goes to the channel that is tested, and to no other."""


def check_event(event: str) -> None:
    """Raise ValueError for a code that is not registered: a bug in the caller."""
    if event not in EVENTS:
        raise ValueError(f"Event {event!r} is not registered in recovery/notify/events.py.")
