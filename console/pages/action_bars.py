"""The bar at the bottom of each recovery page: the one primary button and what it will do."""

from collections.abc import Sequence
from typing import Final

from django.urls import reverse
from django.utils import timezone

from console.pages.base import may_why
from console.pages.recovery_page import RecoveryPage
from console.presenters.running import PersonAsked
from console.presenters.status import RECOVERY
from console.presenters.status import state_badge as status_badge
from console.presenters.wizard import ActionBar, Link, Primary
from console.presenters.words import format_count
from recovery.approvals import rules, selectors
from recovery.contracts.acceptance import Cost
from recovery.contracts.names import EMPTYING, Strategy
from recovery.contracts.positions import ShownSource
from recovery.models import Plan
from recovery.people.roles import Right
from recovery.strategies.catalogue import NEEDS_START, POSITIONED
from recovery.workflow import accepting, further, positioning
from recovery.workflow.joining import plans_together
from recovery.workflow.journal import right_to_run
from recovery.workflow.transitions import WAITS

UNTIL_SEALED: Final = (
    "Nothing is written anywhere: the choice can be changed until the plan is sealed in step 5."
)


def may_edit(page: RecoveryPage) -> str | None:
    """Why this person may not change this recovery now; None when they may."""
    if not page.is_open:
        return f"{page.recovery.label} is past this step: {status_badge(RECOVERY, page.recovery.state).word.lower()}."
    return may_why(page.by, Right.RECOVER, page.environment)


def _to_current(page: RecoveryPage) -> ActionBar:
    """Shown on earlier steps once the recovery is further: the way to where it is."""
    slug = page.current
    word = {"verify": "Go to Verify", "run": "Go to Run"}.get(slug, "Go on")
    label, state = page.recovery.label, status_badge(RECOVERY, page.recovery.state).word.lower()
    href = reverse(slug, args=[page.pk])
    return ActionBar(
        f"{label}: {state}.",
        "What this step decided can no longer be changed.",
        Primary(word, href=href),
        code="past",
    )


def _sealed_bar(page: RecoveryPage, says: str, to_change: str, back: Link) -> ActionBar:
    """Shown where a sealed plan holds what this step decides."""
    review = Primary("Go to Review", href=reverse("review", args=[page.pk]))
    return ActionBar(says, f"{to_change}, take the plan back in step 5.", review, (back,), code="sealed")


def _abandon_links(page: RecoveryPage) -> tuple[Link, ...]:
    """The way out, for who may take it."""
    if may_why(page.by, Right.RECOVER, page.environment):
        return ()
    says = "Give this plan up" if further.may_be_given_up(page.recovery) else "Cancel recovery"
    return (Link(reverse("cancel", args=[page.pk]), says),)


def diagnose_bar(page: RecoveryPage) -> ActionBar:
    if page.recovery.state == "cancelled":
        return ActionBar(
            "This recovery was cancelled.",
            page.recovery.reason,
            Primary("Back to the flow", href=reverse("flow", args=[page.recovery.flow_id])),
        )
    if not page.is_open:
        return _to_current(page)
    what = f"{page.what_runs} {page.recovery.flow.pipeline.name}"
    if page.early_stop is not None:
        href = reverse(page.current if page.current != "diagnose" else "stop", args=[page.pk])
        return ActionBar(
            f"The {page.what_runs} is asked to stop.",
            "See its state in step 2.",
            Primary("Go on", href=href),
            _abandon_links(page),
        )
    return ActionBar(
        f"Next act: stop {what}",
        "so that nothing writes while positions are read. It is safe, and undone by starting it again. "
        "Changes no checkpoint, no code, no table.",
        Primary(f"Stop {what}", post=reverse("stop", args=[page.pk])),
        _abandon_links(page),
        may_edit(page),
    )


def stop_bar(page: RecoveryPage, asked: PersonAsked | None = None) -> ActionBar:
    """`asked`: what a person is to do while the stop runs."""
    step, what = page.early_stop, f"{page.what_runs} {page.recovery.flow.pipeline.name}"
    back = Link(reverse("diagnose", args=[page.pk]), "Back to Diagnose")
    if not page.is_open and page.recovery.state != "needs_attention":
        return _to_current(page)
    if asked is not None:
        return ActionBar(asked.title, "The stop waits for it.", None, (back,), code=asked.code)
    if step is not None and step.state in ("pending", "running"):
        return ActionBar(
            "Nothing to do now.", "The stop was asked for; this page shows what is read back.", None, (back,)
        )
    if step is not None and step.state == "unknown":
        return ActionBar(
            "Nothing to do now.",
            f"A probe reads whether the {page.what_runs} runs. Nothing is repeated by itself.",
            None,
            (back,),
        )
    if step is not None and step.state == "done":
        ready = page.recovery.gathering.status in ("ready", "working")
        href = reverse("offset", args=[page.pk])
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
            None if ready else may_edit(page),
        )
    return ActionBar(
        f"Stops {what} and proves that nothing runs.",
        "Changes no checkpoint, no code, no table. Undo: start it again.",
        Primary(
            f"Stop {what}" if step is None else "Stop again",
            post=reverse("stop", args=[page.pk]),
        ),
        (back,),
        may_edit(page),
    )


def offset_bar(page: RecoveryPage) -> ActionBar:
    back = Link(reverse("stop", args=[page.pk]), "Back to Stop")
    facts, href = page.recovery.gathering, reverse("offset", args=[page.pk])
    if not page.is_open:
        return _to_current(page)
    if facts.status == "working":
        return ActionBar(
            "Nothing to do now.",
            "Rows are being counted; the page shows them when they are there.",
            None,
            (back,),
        )
    if facts.status != "ready":
        return ActionBar(
            "Counts what waits and judges each strategy.",
            "Reads only: checkpoint, code, files, table.",
            Primary("Count rows", post=href, name="act", value="facts"),
            (back,),
            may_edit(page),
        )
    if page.recovery.state == "planned":
        return _sealed_bar(page, "A plan is sealed.", "To choose another strategy", back)
    return ActionBar(
        "Saves the strategy in this recovery.",
        UNTIL_SEALED,
        Primary("Use this strategy, go to Patch code", form="strategy"),
        (back, Link(reverse("flow", args=[page.recovery.flow_id]), "Do nothing yet")),
        may_edit(page),
    )


def positions_bar(page: RecoveryPage, sources: Sequence[ShownSource]) -> ActionBar:
    """`sources`: as the newest look found them."""
    look = page.recovery.chosen.positions_look
    back, href = (
        Link(reverse("offset", args=[page.pk]), "Back to the strategy"),
        reverse("positions", args=[page.pk]),
    )
    chosen = page.recovery.chosen.positions
    if not page.is_open:
        return _to_current(page)
    if page.recovery.state == "planned":
        return _sealed_bar(page, "A plan is sealed with these positions.", "To choose others", back)
    if page.recovery.chosen.strategy not in POSITIONED:
        return ActionBar(
            "Nothing to choose here.",
            "",
            Primary("Back to the strategy", href=back.href),
            code="takes-no-positions",
        )
    if look.status == "working":
        return ActionBar(
            "Nothing to do now.", "The sources are being asked; nothing is chosen by that.", None, (back,)
        )
    if look.status != "ready":
        return ActionBar(
            "Reads each source's position and what it still holds.",
            "Reads only; nothing is chosen by that.",
            Primary("Look up positions", post=href, name="act", value="look"),
            (back,),
            may_edit(page),
        )
    if look.wishes != chosen:
        return ActionBar(
            "Saves these positions in this recovery.",
            UNTIL_SEALED,
            Primary("Choose these positions, go to Patch code", form="choose", name="act", value="choose"),
            (back,),
            may_edit(page) or " ".join(positioning.list_unmet(sources, look.wishes or {})) or None,
        )
    if page.recovery.chosen.strategy in NEEDS_START and not chosen:
        why = "Say at a source how far to go back, and look up what this costs. Then choose it here."
        go_on = Primary("Choose these positions, go to Patch code", form="choose")
        return ActionBar(
            "Nothing is chosen yet.", "", go_on, (back,), may_edit(page) or why, code="how-far-not-chosen"
        )
    said = "The chosen positions are saved." if chosen else "Every source goes on where it was committed."
    patch_code = Primary("Go to Patch code", href=reverse("patch", args=[page.pk]))
    return ActionBar(
        said, "Other ones can be looked up and chosen until the plan is sealed.", patch_code, (back,)
    )


def patch_bar(page: RecoveryPage) -> ActionBar:
    back = Link(reverse("offset", args=[page.pk]), "Back to Start offset")
    if not page.is_open:
        return _to_current(page)
    if page.recovery.state == "planned":
        return _sealed_bar(page, "A plan is sealed with this code.", "To edit it", back)
    why = may_edit(page) or (
        None if page.recovery.chosen.strategy else "No strategy is chosen yet. Choose one in step 3."
    )
    return ActionBar(
        "Saves this code in the recovery.",
        "The workspace changes only when the recovery runs, and only if each file is still the one that was read.",
        Primary("Keep this code, go to Review", form="patch", name="act", value="keep"),
        (back,),
        why,
    )


def review_bar(page: RecoveryPage, void: Plan | None) -> ActionBar:
    back = Link(reverse("patch", args=[page.pk]), "Back to Patch code")
    plan, sealing = page.plan, page.recovery.chosen.sealing
    href = reverse("review", args=[page.pk])
    asks = page.recovery.state == "needs_attention" and plan is not None and not may_ask(page, plan)
    if page.recovery.state in ("cancelled", "expired"):
        flow = reverse("flow", args=[page.recovery.flow_id])
        return ActionBar(
            "This recovery has ended.",
            page.recovery.reason,
            Primary("Back to the flow", href=flow),
            code="ended",
        )
    if page.recovery.state not in ("diagnosing", *WAITS) and not asks:
        return _to_current(page)
    if sealing.status == "working":
        return ActionBar(
            "Nothing to do now.", "The facts are being read again; then the plan is sealed.", None, (back,)
        )
    if plan is None:
        why = may_edit(page) or (
            None if page.recovery.chosen.strategy else "No strategy is chosen yet. Choose one in step 3."
        )
        if costs_to_accept(page) and why is None:
            return _accept_bar(page, back)
        word = "Seal again" if void is not None else "Seal the plan"
        return ActionBar(
            "Reads everything once more and seals a plan.",
            "Nothing runs. You see its forecast before anything happens.",
            Primary(word, post=href),
            (back, *_abandon_links(page)),
            why,
        )
    if may_ask(page, plan) is None:
        return _ask_bar(page, plan)
    return _waiting_bar(page) if page.recovery.state == "awaiting_approval" else _run_bar(page, plan, back)


def costs_to_accept(page: RecoveryPage) -> tuple[Cost, ...]:
    """What has to be accepted before a plan is sealed; () where one is, or no one could."""
    open_to_seal = page.plan is None and page.recovery.state == "diagnosing"
    return accepting.costs_to_accept(page.recovery) if open_to_seal else ()


def _accept_bar(page: RecoveryPage, back: Link) -> ActionBar:
    effects = " and ".join(c.effect.plan for c in costs_to_accept(page))
    return ActionBar(
        f"Seals a plan that {effects}.",
        "Possible once that is accepted above. Nothing runs before you say so.",
        Primary("Accept and seal the plan", form="accept", name="act", value="accept"),
        (back, *_abandon_links(page)),
        code="asks-to-accept",
    )


def may_ask(page: RecoveryPage, plan: Plan) -> str | None:
    """Why no votes can be asked for on this plan; None when they can, and are needed."""
    no = rules.may_ask(selectors.approval_standing(page.recovery, plan), timezone.now())
    return no.says if no is not None else None


def may_run(page: RecoveryPage, plan: Plan | None) -> str | None:
    """Why this person may not run or resume the plan; None when they may, as far as rights go."""
    rights = (Right.RECOVER, right_to_run(plan))
    return next((why for right in rights if (why := may_why(page.by, right, page.environment))), None)


def may_break_glass(page: RecoveryPage, plan: Plan) -> bool:
    """Could this person run the plan without enough votes?"""
    standing = selectors.approval_standing(page.recovery, plan)
    may = page.by.may(Right.BREAK_GLASS, page.environment) and may_run(page, plan) is None
    return may and rules.may_break_glass(standing, timezone.now()) is None


def ways_to_permission(page: RecoveryPage, plan: Plan) -> tuple[Link, ...]:
    """What opens the way for a run that the environment's rules hold back."""
    ask = () if may_ask(page, plan) else (Link(reverse("review", args=[page.pk]), "Ask for approval"),)
    return (*ask, *_break_glass_links(page))


def _break_glass_links(page: RecoveryPage) -> tuple[Link, ...]:
    if page.plan is None or not may_break_glass(page, page.plan):
        return ()
    return (Link(reverse("break-glass", args=[page.pk]), "Break glass"),)


def _ask_bar(page: RecoveryPage, plan: Plan) -> ActionBar:
    rule = selectors.rule_for(page.recovery.flow.pipeline.environment)
    able = selectors.names_of_approvers(rule, plan=plan)
    able = [name for name in able if rule.requester_may_vote or name != page.by.name]
    return ActionBar(
        f"Asks {format_count(len(able), 'person', 'people')} for {format_count(rule.votes, 'vote')} on plan "
        f"{plan.hash[:8]}.",
        "Nothing runs until you start it afterwards. The flow stays stopped.",
        Primary(f"Request {rules.votes_text(rule.votes)}", form="ask"),
        (*_break_glass_links(page), *_abandon_links(page)),
        may_why(page.by, Right.RECOVER, page.environment),
        code="asks-for-votes",
    )


def _waiting_bar(page: RecoveryPage) -> ActionBar:
    request = selectors.request_of(page.plan)
    assert request is not None, "what waits for approval was asked for"
    no = selectors.run_refusal(page.recovery, request.plan)
    return ActionBar(
        "Waits for approval; nothing runs.",
        no.says if no is not None else "",
        Primary("Go to the request", href=reverse("approval", args=[request.pk])),
        (*_break_glass_links(page), *_abandon_links(page)),
        code="waits-for-votes",
    )


def _run_bar(page: RecoveryPage, plan: Plan, back: Link) -> ActionBar:
    environment = page.recovery.flow.pipeline.environment
    contents = plan.contents
    plans = plans_together(plan)
    steps, run = (
        sum(len(each.contents.steps) for each in plans),
        f"Run recovery of {format_count(len(plans), 'flow')}",
    )
    effect = f"Runs {format_count(steps, 'step')} in {environment}."
    no = selectors.run_refusal(page.recovery, plan)
    why = may_run(page, plan) or (no.says if no is not None else None)
    links = (*_break_glass_links(page), *_abandon_links(page))
    ask = Primary(run, href=reverse("confirm", args=[page.pk]))
    if contents.strategy in EMPTYING:
        what = "full refresh" if contents.strategy == Strategy.FULL_REFRESH else "backfill"
        ask = Primary(f"Run {what} of 1 flow", href=reverse("confirm", args=[page.pk]))
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
    primary = Primary(run, post=reverse("run", args=[page.pk]), name="act", value="execute")
    return ActionBar(effect, contents.rollback, primary, (back, *links), why)
