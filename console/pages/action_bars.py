"""The bar at the bottom of each recovery page: the one primary button and what it will do."""

from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils import timezone

from console.pages.base import may_why
from console.pages.recovery_page import RecoveryPage
from console.presenters.status import RECOVERY
from console.presenters.status import state_badge as status_badge
from console.presenters.wizard import ActionBar, Link, Primary
from console.presenters.words import format_count
from recovery.approvals import rules, selectors
from recovery.contracts.acceptance import Cost
from recovery.contracts.names import EMPTYING, Strategy
from recovery.models import Plan
from recovery.people.roles import Right
from recovery.sources import position_requests
from recovery.strategies.catalogue import NEEDS_START, POSITIONED
from recovery.workflow import accepting, positioning
from recovery.workflow.journal import right_to_run
from recovery.workflow.transitions import WAITS


def may_edit(of: RecoveryPage) -> str | None:
    """Why this person may not change this recovery now; None when they may."""
    if not of.is_open:
        return f"{of.recovery.label} is past this step: {status_badge(RECOVERY, of.recovery.state).word.lower()}."
    return may_why(of.by, Right.RECOVER, of.environment)


def _to_current(of: RecoveryPage) -> ActionBar:
    """Shown on earlier steps once the recovery is further: the way to where it stands."""
    slug = of.current
    word = {"verify": "Go to Verify", "run": "Go to Run"}.get(slug, "Go on")
    label, state = of.recovery.label, status_badge(RECOVERY, of.recovery.state).word.lower()
    href = reverse(slug, args=[of.pk])
    return ActionBar(
        f"{label}: {state}.",
        "What this step decided can no longer be changed.",
        Primary(word, href=href),
        code="past",
    )


def _sealed_bar(of: RecoveryPage, says: str, to_change: str, back: Link) -> ActionBar:
    """Shown where a sealed plan holds what this step decides."""
    review = Primary("Go to Review", href=reverse("review", args=[of.pk]))
    return ActionBar(says, f"{to_change}, take the plan back in step 5.", review, (back,), code="sealed")


def _abandon_links(of: RecoveryPage) -> tuple[Link, ...]:
    """The way out, for who may take it."""
    if may_why(of.by, Right.RECOVER, of.environment):
        return ()
    return (Link(reverse("cancel", args=[of.pk]), "Cancel recovery"),)


def diagnose_bar(of: RecoveryPage) -> ActionBar:
    if of.recovery.state == "cancelled":
        return ActionBar(
            "This recovery was cancelled.",
            of.recovery.reason,
            Primary("Back to the flow", href=reverse("flow", args=[of.recovery.flow_id])),
        )
    if not of.is_open:
        return _to_current(of)
    pipeline = of.recovery.flow.pipeline.name
    if of.early_stop is not None:
        href = reverse(of.current if of.current != "diagnose" else "stop", args=[of.pk])
        return ActionBar(
            "The pipeline is asked to stop.",
            "See its state in step 2.",
            Primary("Go on", href=href),
            _abandon_links(of),
        )
    return ActionBar(
        f"Next act: stop pipeline {pipeline}",
        "so that nothing writes while positions are read. It is safe, and undone by starting it again. "
        "Changes no checkpoint, no code, no table.",
        Primary(f"Stop pipeline {pipeline}", post=reverse("stop", args=[of.pk])),
        _abandon_links(of),
        may_edit(of),
    )


def stop_bar(of: RecoveryPage) -> ActionBar:
    step, pipeline = of.early_stop, of.recovery.flow.pipeline.name
    back = Link(reverse("diagnose", args=[of.pk]), "Back to Diagnose")
    if not of.is_open and of.recovery.state != "needs_attention":
        return _to_current(of)
    if step is not None and step.state in ("pending", "running"):
        return ActionBar(
            "Nothing to do now.", "The stop was asked for; this page shows what is read back.", None, (back,)
        )
    if step is not None and step.state == "unknown":
        return ActionBar(
            "Nothing to do now.",
            "A probe reads whether the pipeline runs. Nothing is repeated by itself.",
            None,
            (back,),
        )
    if step is not None and step.state == "done":
        ready = of.recovery.facts.get("status") in ("ready", "working")
        href = reverse("offset", args=[of.pk])
        primary = (
            Primary("Go to Start offset", href=href)
            if ready
            else Primary("Count rows, go to Start offset", post=href, name="act", value="facts")
        )
        return ActionBar(
            "Counts what waits and judges each strategy.",
            "Spark reads the waiting files; nothing is written anywhere.",
            primary,
            (back,),
            None if ready else may_edit(of),
        )
    return ActionBar(
        f"Stops pipeline {pipeline} and proves that nothing runs.",
        "Changes no checkpoint, no code, no table. Undo: start it again.",
        Primary(
            f"Stop pipeline {pipeline}" if step is None else "Stop again", post=reverse("stop", args=[of.pk])
        ),
        (back,),
        may_edit(of),
    )


def offset_bar(of: RecoveryPage) -> ActionBar:
    back = Link(reverse("stop", args=[of.pk]), "Back to Stop")
    facts, href = of.recovery.facts, reverse("offset", args=[of.pk])
    if not of.is_open:
        return _to_current(of)
    if facts.get("status") == "working":
        return ActionBar(
            "Nothing to do now.",
            "Rows are being counted; the page shows them when they are there.",
            None,
            (back,),
        )
    if facts.get("status") != "ready":
        return ActionBar(
            "Counts what waits and judges each strategy.",
            "Reads only: checkpoint, code, files, table.",
            Primary("Count rows", post=href, name="act", value="facts"),
            (back,),
            may_edit(of),
        )
    if of.recovery.state == "planned":
        return _sealed_bar(of, "A plan is sealed.", "To choose another strategy", back)
    return ActionBar(
        "Saves the strategy in this recovery.",
        "Nothing is written to the pipeline: the choice can be changed until the plan is sealed in step 5.",
        Primary("Use this strategy, go to Patch code", form="strategy"),
        (back, Link(reverse("flow", args=[of.recovery.flow_id]), "Do nothing yet")),
        may_edit(of),
    )


def positions_bar(of: RecoveryPage, look: Mapping[str, Any]) -> ActionBar:
    """`look`: `studies.looked`."""
    back, href = (
        Link(reverse("offset", args=[of.pk]), "Back to the strategy"),
        reverse("positions", args=[of.pk]),
    )
    chosen = position_requests.as_dicts(of.recovery.chosen.positions)
    if not of.is_open:
        return _to_current(of)
    if of.recovery.state == "planned":
        return _sealed_bar(of, "A plan is sealed with these positions.", "To choose others", back)
    if of.recovery.chosen.strategy not in POSITIONED:
        return ActionBar(
            "Nothing to choose here.",
            "",
            Primary("Back to the strategy", href=back.href),
            code="takes-no-positions",
        )
    if look.get("status") == "working":
        return ActionBar(
            "Nothing to do now.", "The sources are being asked; nothing is chosen by that.", None, (back,)
        )
    if look.get("status") != "ready":
        return ActionBar(
            "Reads each source's position and what it still holds.",
            "Reads only; nothing is chosen by that.",
            Primary("Look up positions", post=href, name="act", value="look"),
            (back,),
            may_edit(of),
        )
    if look.get("wishes") != chosen:
        return ActionBar(
            "Saves these positions in this recovery.",
            "Nothing is written to the pipeline: the choice can be changed until the plan is sealed in step 5.",
            Primary("Choose these positions, go to Patch code", form="choose", name="act", value="choose"),
            (back,),
            may_edit(of) or " ".join(positioning.unmet(look["sources"], look["wishes"])) or None,
        )
    if of.recovery.chosen.strategy in NEEDS_START and not chosen:
        why = "Say at a source how far to go back, and look up what this costs. Then choose it here."
        go_on = Primary("Choose these positions, go to Patch code", form="choose")
        return ActionBar(
            "Nothing is chosen yet.", "", go_on, (back,), may_edit(of) or why, code="how-far-not-chosen"
        )
    said = "The chosen positions are saved." if chosen else "Every source goes on where it was committed."
    patch_code = Primary("Go to Patch code", href=reverse("patch", args=[of.pk]))
    return ActionBar(
        said, "Other ones can be looked up and chosen until the plan is sealed.", patch_code, (back,)
    )


def patch_bar(of: RecoveryPage) -> ActionBar:
    back = Link(reverse("offset", args=[of.pk]), "Back to Start offset")
    if not of.is_open:
        return _to_current(of)
    if of.recovery.state == "planned":
        return _sealed_bar(of, "A plan is sealed with this code.", "To edit it", back)
    why = may_edit(of) or (
        None if of.recovery.chosen.strategy else "No strategy is chosen yet. Choose one in step 3."
    )
    return ActionBar(
        "Saves this code in the recovery.",
        "The workspace changes only when the recovery runs, and only if each file is still the one that was read.",
        Primary("Keep this code, go to Review", form="patch", name="act", value="keep"),
        (back,),
        why,
    )


def review_bar(of: RecoveryPage, void: Plan | None) -> ActionBar:
    back = Link(reverse("patch", args=[of.pk]), "Back to Patch code")
    plan, sealing = of.plan, of.recovery.chosen.sealing
    href = reverse("review", args=[of.pk])
    asks = of.recovery.state == "needs_attention" and plan is not None and not may_ask(of, plan)
    if of.recovery.state in ("cancelled", "expired"):
        flow = reverse("flow", args=[of.recovery.flow_id])
        return ActionBar(
            "This recovery has ended.",
            of.recovery.reason,
            Primary("Back to the flow", href=flow),
            code="ended",
        )
    if of.recovery.state not in ("diagnosing", *WAITS) and not asks:
        return _to_current(of)
    if sealing.status == "working":
        return ActionBar(
            "Nothing to do now.", "The facts are read again and the plan is sealed.", None, (back,)
        )
    if plan is None:
        why = may_edit(of) or (
            None if of.recovery.chosen.strategy else "No strategy is chosen yet. Choose one in step 3."
        )
        if costs_to_accept(of) and why is None:
            return _accept_bar(of, back)
        word = "Seal again" if void is not None else "Seal the plan"
        return ActionBar(
            "Reads everything once more and seals a plan.",
            "Nothing runs. You see its forecast before anything happens.",
            Primary(word, post=href),
            (back, *_abandon_links(of)),
            why,
        )
    if may_ask(of, plan) is None:
        return _ask_bar(of, plan)
    return _waiting_bar(of) if of.recovery.state == "awaiting_approval" else _run_bar(of, plan, back)


def costs_to_accept(of: RecoveryPage) -> tuple[Cost, ...]:
    """What has to be accepted before a plan is sealed; () where one is, or nobody could."""
    open_to_seal = of.plan is None and of.recovery.state == "diagnosing"
    return accepting.costs_to_accept(of.recovery) if open_to_seal else ()


def _accept_bar(of: RecoveryPage, back: Link) -> ActionBar:
    effects = " and ".join(c.effect.plan for c in costs_to_accept(of))
    return ActionBar(
        f"Seals a plan that {effects}.",
        "Possible once that is accepted above. Nothing runs before you say so.",
        Primary("Accept and seal the plan", form="accept", name="act", value="accept"),
        (back, *_abandon_links(of)),
        code="asks-to-accept",
    )


def may_ask(of: RecoveryPage, plan: Plan) -> str | None:
    """Why no votes can be asked for on this plan; None when they can, and are needed."""
    no = rules.may_ask(selectors.approval_standing(of.recovery, plan), timezone.now())
    return no.says if no is not None else None


def may_run(of: RecoveryPage, plan: Plan | None) -> str | None:
    """Why this person may not run or resume the plan; None when they may, as far as rights go."""
    rights = (Right.RECOVER, right_to_run(plan))
    return next((why for right in rights if (why := may_why(of.by, right, of.environment))), None)


def may_break_glass(of: RecoveryPage, plan: Plan) -> bool:
    """Could this person run the plan without enough votes?"""
    standing = selectors.approval_standing(of.recovery, plan)
    may = of.by.may(Right.BREAK_GLASS, of.environment) and may_run(of, plan) is None
    return may and rules.may_break_glass(standing, timezone.now()) is None


def ways_to_permission(of: RecoveryPage, plan: Plan) -> tuple[Link, ...]:
    """What opens the way for a run that the environment's rules hold back."""
    ask = () if may_ask(of, plan) else (Link(reverse("review", args=[of.pk]), "Ask for approval"),)
    return (*ask, *_break_glass_links(of))


def _break_glass_links(of: RecoveryPage) -> tuple[Link, ...]:
    if of.plan is None or not may_break_glass(of, of.plan):
        return ()
    return (Link(reverse("break-glass", args=[of.pk]), "Break glass"),)


def _ask_bar(of: RecoveryPage, plan: Plan) -> ActionBar:
    rule = selectors.rule_for(of.recovery.flow.pipeline.environment)
    able = selectors.names_of_approvers(rule, plan=plan)
    able = [name for name in able if rule.requester_may_vote or name != of.by.name]
    return ActionBar(
        f"Asks {format_count(len(able), 'person', 'people')} for {format_count(rule.votes, 'vote')} on plan "
        f"{plan.hash[:8]}.",
        "Nothing runs until you start it afterwards. The flow stays stopped.",
        Primary(f"Request {rules.votes_text(rule.votes)}", form="ask"),
        (*_break_glass_links(of), *_abandon_links(of)),
        may_why(of.by, Right.RECOVER, of.environment),
        code="asks-for-votes",
    )


def _waiting_bar(of: RecoveryPage) -> ActionBar:
    request = selectors.request_of(of.plan)
    assert request is not None, "what waits for approval was asked for"
    no = selectors.run_refusal(of.recovery, request.plan)
    return ActionBar(
        "Waits for approval; nothing runs.",
        no.says if no is not None else "",
        Primary("Go to the request", href=reverse("approval", args=[request.pk])),
        (*_break_glass_links(of), *_abandon_links(of)),
        code="waits-for-votes",
    )


def _run_bar(of: RecoveryPage, plan: Plan, back: Link) -> ActionBar:
    environment = of.recovery.flow.pipeline.environment
    contents = plan.contents
    effect = f"Runs {format_count(len(contents.steps), 'step')} in {environment}."
    no = selectors.run_refusal(of.recovery, plan)
    why = may_run(of, plan) or (no.says if no is not None else None)
    links = (*_break_glass_links(of), *_abandon_links(of))
    ask = Primary("Run recovery of 1 flow", href=reverse("confirm", args=[of.pk]))
    if contents.strategy in EMPTYING:
        what = "full refresh" if contents.strategy == Strategy.FULL_REFRESH else "backfill"
        ask = Primary(f"Run {what} of 1 flow", href=reverse("confirm", args=[of.pk]))
        if contents.strategy == Strategy.BACKFILL:
            says = f"Backs the table up, then empties it. {contents.rollback} You are asked once more."
            return ActionBar(effect, says, ask, links, why)
        return ActionBar(
            effect, "Empties the table first. Cannot be undone; you are asked once more.", ask, links, why
        )
    if contents.strategy == Strategy.EMPTY:
        again = "Writes again what is read again. Cannot be undone; you are asked once more."
        return ActionBar(effect, again, ask, links, why, code="reads-all-again")
    if contents.strategy == Strategy.REPLAY and environment in rules.LENIENT:
        says = f"Takes the rows of later batches out of the table first. {contents.rollback} You are asked once more."
        return ActionBar(effect, says, ask, (back, *links), why, code="puts-table-back")
    if environment not in rules.LENIENT:
        return ActionBar(
            effect,
            f"{contents.rollback} Asks you to type the flow's name first.",
            ask,
            (back, *links),
            why,
            code="asks-for-the-name",
        )
    primary = Primary(
        "Run recovery of 1 flow", post=reverse("run", args=[of.pk]), name="act", value="execute"
    )
    return ActionBar(effect, contents.rollback, primary, (back, *links), why)
