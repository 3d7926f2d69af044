"""What someone sees: flows of the environments in which they may see flows, and the audit entries of those."""

from django.db.models import Q

from recovery.errors import NotFound
from recovery.models import Flow
from recovery.people.roles import ENVIRONMENTS, Actor, Right


def visible_environments(by: Actor) -> list[str]:
    """Where `by` sees flows, of the environments with rules of their own."""
    return [e for e in ENVIRONMENTS if by.may(Right.VIEW, e)]


def filter_visible(by: Actor, path: str = "") -> Q:
    """A filter to what `by` sees; `path` leads to the pipeline (`pipeline__`, `flow__pipeline__`)."""
    seen = visible_environments(by)
    if len(seen) == len(ENVIRONMENTS):
        return Q()  # no condition: the database reads its table as it is
    condition = Q(**{f"{path}environment__in": seen})
    if "production" in seen:  # an environment without rules of its own goes by those of production
        condition |= ~Q(**{f"{path}environment__in": ENVIRONMENTS})
    return condition


def filter_entries(by: Actor) -> Q:
    """A filter to the audit entries that `by` sees: of those environments, and those of no environment.

    The right to read the log goes by the default role, on every page and command.
    """
    seen = filter_visible(by)
    return seen | Q(environment="") if seen else seen


def require_visible_flow(flow: Flow | None, by: Actor, missing: str) -> Flow:
    """The flow, if `by` sees it. Raises NotFound with the same words for one that is not there."""
    if flow is None or not by.may(Right.VIEW, flow.pipeline.environment):
        raise NotFound(missing)
    return flow
