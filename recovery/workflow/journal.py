"""Audit rows about a recovery: who tried what on its flow, and what the engine did. One shape for all of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from recovery.audit.actions import Attempt, append_entry, audited_attempt
from recovery.audit.aims import name_pipeline
from recovery.models import Flow, Plan, Recovery
from recovery.people import visible
from recovery.people.roles import SYSTEM, Actor, Right

NO_RESET = frozenset({"repair", "revert"})
"""Strategies that mend what is there: to run them is not to reset."""


def right_to_run(plan: Plan | None) -> Right:
    """The right that running this plan asks for: every plan resets, but those that repair."""
    return Right.RECOVER if plan is None or plan.contents.strategy in NO_RESET else Right.RESET


@contextmanager
def trying(
    action: str, recovery: Recovery, by: Actor, right: Right = Right.RECOVER, *, reason: str = ""
) -> Iterator[Attempt]:
    """One try at a recovery by a person: the right is checked, in its environment, then the body runs in one
    transaction. `reason` is what the person gave, for a field of its own.

    A denial or refusal takes the body's changes back and is a row of its own. Success is the body's to record, last:
    `trying.done(says)`. Raises Denied, and whatever the body raises.
    """
    with audited_attempt(
        action=action,
        by=by,
        target_kind="flow",
        target=recovery.flow.name,
        recovery=recovery.label,
        reason=reason.strip(),
    ) as made:
        visible.require_visible_flow(
            recovery.flow, by, f"There is no recovery {recovery.label}. See the list of recoveries."
        )
        by.check(right, recovery.flow.pipeline.environment)
        yield made


@contextmanager
def trying_together(
    action: str, members: Sequence[Recovery], by: Actor, right: Right = Right.RECOVER, *, reason: str = ""
) -> Iterator[tuple[Attempt, ...]]:
    """One try at recoveries of one pipeline, all or none of them: as `trying`, with an attempt for each.

    A denial or refusal is a row of the first one. Success is a row of each, the body's to record.
    """
    with trying(action, members[0], by, right, reason=reason) as first:
        others = (
            Attempt(action, by, "flow", other.flow.name, other.label, reason.strip()) for other in members[1:]
        )
        yield (first, *others)


@contextmanager
def trying_flow(action: str, flow: Flow, by: Actor, *, recovery: str = "") -> Iterator[Attempt]:
    """One try at a flow by a person who may recover there: as `trying`, where the act is at no recovery, or opens one.

    `recovery`: the label of the one that it concerns.
    """
    with audited_attempt(
        action=action,
        by=by,
        target_kind="flow",
        target=flow.name,
        recovery=recovery,
        environment=flow.pipeline.environment,
        pipeline=name_pipeline(flow.pipeline),
    ) as made:
        by.check(Right.RECOVER, flow.pipeline.environment)
        yield made


def note(
    action: str,
    recovery: Recovery,
    says: str,
    *,
    outcome: str = "done",
    by: Actor = SYSTEM,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Append what became of a recovery; inside the transaction of the change."""
    append_entry(
        action=action,
        outcome=outcome,
        by=by,
        target_kind="flow",
        target=recovery.flow.name,
        recovery=recovery.label,
        says=says,
        before=dict(before) if before is not None else None,
        after=dict(after) if after is not None else None,
    )
