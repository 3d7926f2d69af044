"""What is the same for several recoveries of one pipeline, done once: open, count, say whether the change was meant,
choose and seal.

Each act is that of one recovery after the other: where one is refused, what was done before it stays, and the same act
goes on from there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from recovery.approvals.rules import ApprovalRule
from recovery.contracts.choices import ChoicesChange
from recovery.contracts.names import ChangeIntent, Strategy
from recovery.contracts.plan import PatchAuthor
from recovery.errors import Refused
from recovery.models import Recovery
from recovery.people.roles import Actor
from recovery.planning.actions import request_plan, update_choices
from recovery.strategies.recommending import decision, may_be_preselected
from recovery.workflow import actions, ways
from recovery.workflow.moves import get
from recovery.workflow.selectors import open_recovery_of


def open_recoveries(*, flow_ids: Sequence[int], by: Actor) -> None:
    """Open a recovery of each flow that has none. Raises as `actions.open_recovery`."""
    for flow_id in flow_ids:
        if open_recovery_of(flow_id) is None:
            actions.open_recovery(flow_id=flow_id, by=by)


def count_rows(*, recovery_ids: Sequence[int], by: Actor) -> None:
    """Have the rows of each counted and every strategy judged. Raises as `actions.request_facts`."""
    for recovery_id in recovery_ids:
        actions.request_facts(recovery_id=recovery_id, by=by)


def say_meant(*, recovery_ids: Sequence[int], meant: ChangeIntent, by: Actor) -> None:
    """Say of each whether the change was meant: it is one edit. Raises as `update_choices`."""
    for recovery_id in recovery_ids:
        update_choices(recovery_id=recovery_id, change=ChoicesChange(meant=meant), by=by)


def name_next_strategy(recovery: Recovery, rule: ApprovalRule | None = None) -> Strategy | None:
    """The strategy that its plan will have: the one that was chosen, else the recommended one if it can be undone.
    None: a person has to choose. `rule`: of its environment, where it was read already."""
    chosen = recovery.chosen
    if chosen.strategy is not None or recovery.gathering.status != "ready":
        return chosen.strategy
    options = ways.options_of(recovery, rule)
    best = decision(options, recovery.diagnosis_value, chosen.meant).strategy
    option = next((option for option in options if option.strategy == best), None)
    return option.strategy if option is not None and may_be_preselected(option) else None


@dataclass(frozen=True)
class SharedEdit:
    """What was edited, and who edited each file of it."""

    patch: Mapping[str, str]
    editors: Mapping[str, tuple[PatchAuthor, ...]]


def seal_plans(*, recovery_ids: Sequence[int], by: Actor) -> None:
    """Have a plan of each sealed, with the strategy of `name_next_strategy` and with one code: what was edited in one
    recovery, sealed or not, is the code of all that do not put the code back. A sealed one stays as it is.

    Raises Refused if a person has to choose for one (`no_strategy`) or two hold different edits (`other_code`), and as
    `update_choices` and `request_plan`.
    """
    members = [get(recovery_id) for recovery_id in recovery_ids]
    waiting = [recovery for recovery in members if recovery.state != "planned"]
    strategies = {recovery.pk: name_next_strategy(recovery) for recovery in waiting}
    if open_ones := [recovery.label for recovery in waiting if strategies[recovery.pk] is None]:
        raise Refused(f"Choose a strategy first: {', '.join(open_ones)}.", code="no_strategy")
    edit = _find_edit(members)
    for recovery in waiting:
        strategy = strategies[recovery.pk]
        change = ChoicesChange(strategy=strategy)
        if strategy is not Strategy.REVERT:
            patch, editors = (edit.patch, edit.editors) if edit else (recovery.chosen.patch, {})
            change = ChoicesChange(strategy=strategy, patch=patch, editors=editors)
        update_choices(recovery_id=recovery.pk, change=change, by=by)
    for recovery in waiting:
        request_plan(recovery_id=recovery.pk, by=by)


def _find_edit(members: Collection[Recovery]) -> SharedEdit | None:
    """The files that were edited in one of them; None: in none. Raises Refused for different edits, and for a sealed
    plan without the edit."""
    edited = [recovery for recovery in members if recovery.chosen.patch]
    if not edited:
        return None
    first = edited[0]
    lacking = (r for r in members if r.state == "planned" and r.chosen.strategy is not Strategy.REVERT)
    if other := next((r for r in (*edited, *lacking) if r.chosen.patch != first.chosen.patch), None):
        raise Refused(
            f"{first.label} and {other.label} hold different code, and one update has one code. Edit one of them; take "
            "a plan back first where it is sealed.",
            code="other_code",
        )
    patch = first.chosen.patch or {}
    editors = {
        path: tuple(
            dict.fromkeys(who for recovery in edited for who in recovery.chosen.editors.get(path, ()))
        )
        for path in patch
    }
    return SharedEdit(patch, editors)
