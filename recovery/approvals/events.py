"""What happened to a request, for whoever tells people about it. Nothing is sent from here.

To be told, append a function to `LISTENERS` (in an app's `ready`). It is called once the transaction is committed, in
the process that acted, at most once: a listener that must not miss anything writes an outbox row of its own from
`happened`'s caller instead. A listener that fails is logged and disturbs nobody.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.db import transaction

KINDS: Final = ("requested", "voted", "approved", "rejected", "expired", "voided", "break_glass")


@dataclass(frozen=True)
class Happened:
    """`says` is one sentence for people; `request_id` 0 where no request exists (broken glass)."""

    kind: str
    recovery: str
    environment: str
    says: str
    request_id: int = 0


Listener = Callable[[Happened], None]
LISTENERS: list[Listener] = []


def happened(what: Happened) -> None:
    """Tell every listener after the commit. Call inside the transaction of the change."""
    for listener in LISTENERS:
        transaction.on_commit(_telling(listener, what), robust=True)


def _telling(listener: Listener, what: Happened) -> Callable[[], None]:
    """A function with a name: Django names it in the log when it fails, which a partial does not have."""

    def tell() -> None:
        listener(what)

    return tell
