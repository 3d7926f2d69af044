"""What of the inventory somebody sees: the flows of the environments in which they may see flows."""

from django.db.models import Q

from recovery.errors import NotFound
from recovery.models import Flow
from recovery.people.roles import ENVIRONMENTS, Actor, Right


def where(by: Actor, path: str = "") -> Q:
    """A filter to what `by` sees; `path` leads to the pipeline (`pipeline__`, `flow__pipeline__`)."""
    seen = [e for e in ENVIRONMENTS if by.may(Right.VIEW, e)]
    found = Q(**{f"{path}environment__in": seen})
    if "production" in seen:  # an environment without rules of its own goes by those of production
        found |= ~Q(**{f"{path}environment__in": ENVIRONMENTS})
    return found


def check(flow: Flow | None, by: Actor, missing: str) -> Flow:
    """The flow, if `by` sees it. Raises NotFound with the same words for one that is not there."""
    if flow is None or not by.may(Right.VIEW, flow.pipeline.environment):
        raise NotFound(missing)
    return flow
