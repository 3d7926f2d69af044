"""Where a replay goes back to, as people and programs write it: `time=…`, `version=…`, `batch=…`. Pure."""

from recovery.contracts.start_choice import StartChoice
from recovery.contracts.target import ReplayTarget
from recovery.errors import WrongUse
from recovery.numbers import whole
from recovery.sources import position_requests

FORMS = "time=2026-11-22T03:00:00Z, version=12, batch=40"


def parse_target(text: str) -> ReplayTarget:
    """The target that a text says. Raises WrongUse, whose sentence names the forms."""
    name, _, value = text.strip().partition("=")
    if name == "time" and value:
        return ReplayTarget(at_ms=position_requests.parse_wish(text.strip()).at_ms)
    number = whole(value)
    if number is not None and name == "version":
        return ReplayTarget(version=number)
    if number is not None and name == "batch":
        return ReplayTarget(batch=number)
    raise WrongUse(f"{text!r} names nothing to go back to. Write one of: {FORMS}.", code="no_target")


def target_text(target: ReplayTarget) -> str:
    """A target as `parse_target` takes it."""
    if target.batch is not None:
        return f"batch={target.batch}"
    if target.version is not None:
        return f"version={target.version}"
    return position_requests.wish_text(StartChoice(at_ms=target.at_ms))
