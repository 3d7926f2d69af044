"""Every status as a word and a shape; colour only repeats them. Pure."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Badge:
    """`kind` names colour and shape: ok, attention, failed, empty, running, unknown, stopped, pending, info."""

    kind: str
    word: str
    spin: bool = False

    @property
    def colour(self) -> str:
        """The badge class; `info` and `empty` have no colour of their own."""
        return {"info": "stopped", "empty": "failed"}.get(self.kind, self.kind)


FLOW: Final = {
    "ok": Badge("ok", "OK"),
    "failed": Badge("failed", "Failed"),
    "running": Badge("running", "Running", spin=True),
    "stopped": Badge("stopped", "Stopped"),
    "stale": Badge("attention", "Stale"),
    "empty": Badge("empty", "Empty"),
    "unknown": Badge("unknown", "Unknown"),
}

RECOVERY: Final = {
    "diagnosing": Badge("pending", "Being prepared"),
    "planned": Badge("pending", "Plan sealed, not run"),
    "awaiting_approval": Badge("pending", "Waits for approval"),
    "approved": Badge("pending", "Approved, not run"),
    "running": Badge("running", "Running", spin=True),
    "verifying": Badge("running", "Verifying", spin=True),
    "succeeded": Badge("ok", "Proven"),
    "unproven": Badge("attention", "Ended without proof"),
    "failed": Badge("failed", "Failed"),
    "needs_attention": Badge("attention", "Needs a person"),
    "cancelled": Badge("stopped", "Cancelled"),
    "expired": Badge("stopped", "Expired"),
    "rolled_back": Badge("stopped", "Rolled back"),
}

STEP: Final = {
    "pending": Badge("pending", "Waiting"),
    "running": Badge("running", "Running", spin=True),
    "done": Badge("ok", "Done"),
    "failed": Badge("failed", "Failed"),
    "unknown": Badge("unknown", "Unknown"),
    "skipped": Badge("stopped", "Skipped"),
}

OUTCOME: Final = {
    "done": Badge("ok", "Done"),
    "denied": Badge("attention", "Denied"),
    "failed": Badge("failed", "Failed"),
    "unknown": Badge("unknown", "Unknown"),
}

LEVEL: Final = {
    "ERROR": Badge("failed", "Error"),
    "WARN": Badge("attention", "Warning"),
    "INFO": Badge("info", "Info"),
    "METRICS": Badge("info", "Metrics"),
}

SEVERITY: Final = {
    "blocker": Badge("failed", "Blocker"),
    "warning": Badge("attention", "Warning"),
    "info": Badge("info", "Note"),
}

UPDATE: Final = {
    "COMPLETED": Badge("ok", "Completed"),
    "FAILED": Badge("failed", "Failed"),
    "CANCELED": Badge("stopped", "Cancelled"),
}

DOT_WORDS: Final = {
    "ok": "ok",
    "failed": "failed",
    "stopped": "stopped",
    "running": "running",
    "unknown": "unknown",
    "none": "no update",
}


def state_badge(table: dict[str, Badge], state: str) -> Badge:
    """The badge of a state; an unknown state is shown as unknown, under its own name."""
    return table.get(state) or Badge("unknown", state.replace("_", " ").capitalize() or "Unknown")


def criterion_badge(ok: bool | None) -> Badge:
    """Result of a criterion."""
    if ok is None:
        return Badge("unknown", "Not measured")
    return Badge("ok", "Holds") if ok else Badge("failed", "Fails")


@dataclass(frozen=True)
class Dots:
    """The last updates, oldest first, five places."""

    kinds: tuple[str, ...]

    @property
    def label(self) -> str:
        words = ", ".join(DOT_WORDS.get(k, k) for k in self.kinds)
        return f"Last {len(self.kinds)} updates, oldest first: {words}"


def update_dots(history: list[str]) -> Dots:
    """Five dots; places without an update are drawn as a dash."""
    kinds = [h if h in DOT_WORDS else "unknown" for h in history[-5:]]
    return Dots(tuple(["none"] * (5 - len(kinds)) + kinds))
