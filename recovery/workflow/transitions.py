"""The one transition table of recoveries and steps. State moves only through `move`, compare-and-set."""

from typing import Final

RECOVERY: Final[dict[str, frozenset[str]]] = {
    "diagnosing": frozenset({"planned", "cancelled"}),
    "planned": frozenset({"running", "awaiting_approval", "diagnosing", "cancelled", "expired"}),
    "awaiting_approval": frozenset({"approved", "diagnosing", "cancelled", "expired"}),
    "approved": frozenset({"running", "diagnosing", "cancelled", "expired"}),
    "running": frozenset({"verifying", "needs_attention", "failed", "diagnosing", "rolled_back"}),
    "verifying": frozenset({"succeeded", "needs_attention"}),
    "needs_attention": frozenset(
        {"running", "verifying", "failed", "rolled_back", "diagnosing", "cancelled"}
    ),
    "succeeded": frozenset({"rolled_back"}),
    "failed": frozenset({"rolled_back"}),
    "cancelled": frozenset(),
    "expired": frozenset(),
    "rolled_back": frozenset(),
}

STEP: Final[dict[str, frozenset[str]]] = {
    "pending": frozenset({"running", "skipped"}),
    "running": frozenset({"done", "failed", "unknown"}),
    "unknown": frozenset({"done", "failed", "running", "pending", "skipped"}),
    "failed": frozenset({"pending", "running", "skipped"}),
    "done": frozenset(),
    "skipped": frozenset(),
}

OPEN: Final = frozenset(s for s, to in RECOVERY.items() if to - {"rolled_back"})
"""Recovery states in which it holds its flow: no second recovery of that flow may be opened."""


def may_move(table: dict[str, frozenset[str]], old: str, new: str) -> bool:
    """Is old -> new in the table? Raises KeyError for a state that the table does not know."""
    if new not in table:
        raise KeyError(new)
    return new in table[old]
