"""The bars of the run and the verification: resume, roll back, go on to the proof."""

from dataclasses import dataclass

from django.urls import reverse

from console.pages.action_bars import may_run, ways_to_permission
from console.pages.base import may_why
from console.pages.recovery_page import RecoveryPage
from console.presenters import verifying
from console.presenters.running import PersonAsked, is_barred_by_run, is_given_up, name_skip
from console.presenters.wizard import ActionBar, Link, Primary
from recovery.approvals import selectors
from recovery.contracts.names import Strategy
from recovery.errors import RepriseError
from recovery.models import Recovery, Step
from recovery.people.roles import Right
from recovery.verification.foreseen import is_beyond_proof
from recovery.verification.words import count_repeats
from recovery.workflow import further, probing, skipping, unknowns
from recovery.workflow.doubting import PROVING
from recovery.workflow.selectors import open_recovery_of
from recovery.workflow.steps.rollback import RollbackRefusal

FREE = "The reason is above and in the audit log. The flow is free for another recovery."


def run_bar(
    page: RecoveryPage,
    stuck: Step | None,
    refusal: RollbackRefusal | None,
    no_skip: str | None,
    *,
    asked: PersonAsked | None = None,
    by_others: bool = False,
) -> ActionBar:
    """`refusal`: why it cannot be rolled back, `no_skip`: why the step at which it is stuck cannot be skipped. `asked`:
    what a person is to do while it runs. `by_others`: others have started the stream meanwhile."""
    state = page.recovery.state
    verify = reverse("verify", args=[page.pk])
    if state in ("running", "verifying"):
        if asked is not None:
            return ActionBar(asked.title, "The recovery waits for it.", code=asked.code)
        return ActionBar(
            "Nothing to do now.",
            "The recovery goes on without this page.",
            None,
            (Link(verify, "Criteria of the proof"),) if state == "verifying" else (),
        )
    if state == "needs_attention" and stuck is not None:
        if by_others and refusal is None:
            return _back_bar(page)
        if by_others and is_barred_by_run(refusal):
            return _stop_others_bar(page)
        return _stuck_bar(page, stuck, refusal, no_skip)
    if state == "unproven":
        return ActionBar("Ended without proof.", FREE, Primary("Go to Verify", href=verify), code="unproven")
    if state in ("succeeded", "needs_attention"):
        return ActionBar(
            "All steps ran.",
            "The next page shows what was measured.",
            Primary("Go to Verify", href=verify),
        )
    if state in ("diagnosing", "planned"):
        return ActionBar("Nothing ran yet.", "", Primary("Go on", href=reverse(page.current, args=[page.pk])))
    flow = reverse("flow", args=[page.recovery.flow_id])
    return ActionBar(
        "This recovery has ended.", page.recovery.reason, Primary("Back to the flow", href=flow), code="ended"
    )


def _back_bar(page: RecoveryPage) -> ActionBar:
    """Where others have started the stream, and what was changed can still be put back."""
    return ActionBar(
        "Puts back what this recovery changed, and ends it.",
        "Disable what started the stream first.",
        Primary("Roll back", href=reverse("rollback", args=[page.pk])),
        why_not=may_why(page.by, Right.RECOVER, page.environment),
        code="roll-back",
    )


def _stop_others_bar(page: RecoveryPage) -> ActionBar:
    """Where others have started the stream and it runs: whether a way back is left, its end decides."""
    return ActionBar(
        "Stop the stream first.",
        "It runs outside this recovery. Disable what started it, stop it, then reload this page.",
        Primary("Go to the stream", href=reverse("flow", args=[page.recovery.flow_id])),
        code="stop-others",
    )


def _stuck_bar(
    page: RecoveryPage, stuck: Step, refusal: RollbackRefusal | None, no_skip: str | None
) -> ActionBar:
    links = () if refusal else (Link(reverse("rollback", args=[page.pk]), "Roll back"),)
    if _is_given_up(page):
        links = (*links, Link(reverse("cancel", args=[page.pk]), "Give this plan up"))
    skip = reverse("skip", args=[page.pk])
    if is_given_up(stuck.kind, no_skip):
        ends = Primary(name_skip(stuck.kind), href=skip)
        says = "You say why. After that, the stream can be recovered again."
        return ActionBar(
            "This recovery cannot go on.", says, ends, links, may_run(page, page.plan), "give-up"
        )
    if no_skip is None:
        links = (*links, Link(skip, name_skip(stuck.kind)))
    waits = not probing.is_answered(stuck)
    why = may_run(page, page.plan)
    no = (
        selectors.run_refusal(page.recovery, page.plan)
        if page.plan is not None and stuck.kind != "verify"
        else None
    )
    if no is not None and page.plan is not None:
        why, links = why or no.says, (*links, *ways_to_permission(page, page.plan))
    if waits and why is None:
        why = PROBE_OPEN
    again = {
        "unknown": "Goes on from the evidence: what is proven done is not done again.",
        "pending": "Begins this step and those after it.",
    }.get(stuck.state, "Runs this step again and those after it.")
    at = reverse("run", args=[page.pk])
    primary = Primary("Resume", post=at, name="confirmed", value="resume")
    if stuck.state == "unknown" and probing.leaves_open(stuck):
        links = (Link(reverse("statement", args=[page.pk]), "Say what you know"), *links)
        if update := unknowns.find_unknown_update(stuck):
            stop = Primary(f"Stop {page.run_noun} {update[:8]}", post=at, name="act", value="prove")
            no_right = may_why(page.by, Right.RECOVER, page.environment)
            says = "Deletes nothing; committed rows stay. If nothing answers, the step stays unknown."
            return ActionBar(
                f"Ends its {page.run_noun} and waits for the proof.",
                says,
                stop,
                links,
                no_right,
                "stop-and-prove",
            )
    return ActionBar("Resumes the same plan.", again, primary, links, why)


def _is_given_up(page: RecoveryPage) -> bool:
    """Whether the plan before it can be in force again; not where that cannot be read."""
    try:
        return further.may_be_given_up(page.recovery)
    except RepriseError:
        return False


PROBE_OPEN = "The probe has not answered yet. Nothing is repeated before it has."


@dataclass(frozen=True)
class SecondaryResume:
    """Resuming, where another act is the primary one; `why_not` disables it."""

    why_not: str


def resume_beside(page: RecoveryPage, stuck: Step) -> SecondaryResume | None:
    """None where the bar itself resumes."""
    if not (stuck.state == "unknown" and probing.leaves_open(stuck) and unknowns.find_unknown_update(stuck)):
        return None
    return SecondaryResume(may_run(page, page.plan) or ("" if probing.is_answered(stuck) else PROBE_OPEN))


def _end_without(page: RecoveryPage) -> tuple[Link, ...]:
    """The way out of a proof that does not hold."""
    if skipping.find_refusal(page.recovery) or may_run(page, page.plan):
        return ()
    return (Link(reverse("skip", args=[page.pk]), "End without proof"),)


def may_take_out(page: RecoveryPage) -> bool:
    """Whether a recovery of its own may delete the repeats that this proof accepted: they are still in the table, which
    takes corrections, and nothing came after."""
    recovery, flow, measured = page.recovery, page.recovery.flow, page.recovery.proof
    if page.plan is None or measured is None or recovery.state != "succeeded":
        return False
    if count_repeats(measured).rows == 0 or not further.takes_corrections(recovery, page.plan.contents):
        return False
    is_rewritten = flow.rewritten_at and recovery.ended_at and flow.rewritten_at > recovery.ended_at
    later = Recovery.objects.filter(flow=flow, pk__gt=recovery.pk, state__in=PROVING)
    return (
        flow.state == "ok" and not is_rewritten and open_recovery_of(flow.pk) is None and not later.exists()
    )


def _say_closed(recovery: Recovery) -> str:
    """How a proven recovery was closed; its badge carries the same."""
    cost = verifying.accepted_cost(recovery.proof)
    accepted = f", with {cost} as accepted" if cost else ""
    return f"Closed as proven{accepted}{'; the table differs' if verifying.table_differs(recovery.proof) else ''}."


def verify_bar(page: RecoveryPage, asked: PersonAsked | None = None) -> ActionBar:
    """`asked`: what a person is to do while it is measured."""
    state = page.recovery.state
    flow = reverse("flow", args=[page.recovery.flow_id])
    steps = Link(reverse("run", args=[page.pk]), "Steps and log")
    report = Link(reverse("report", args=[page.pk]), "Report")
    corrected = page.plan is not None and page.plan.contents.corrects_table
    if state == "succeeded":
        return ActionBar(
            _say_closed(page.recovery),
            "Flow and checkpoint are as they were; start the pipeline when you like."
            if corrected
            else "The checkpoint is at its new position; the plan, the log and the audit entries stay.",
            Primary("Back to the flow", href=flow),
            (report, steps),
        )
    if state == "unproven":
        return ActionBar(
            "Ended without proof.", FREE, Primary("Back to the flow", href=flow), (report, steps)
        )
    if state in ("running", "verifying") and asked is not None:
        return ActionBar(asked.title, "The proof waits for it.", None, (steps,), code=asked.code)
    if state in ("running", "verifying"):
        return ActionBar(
            "Nothing to do now.", "The criteria are being measured; this page shows them.", None, (steps,)
        )
    if state == "needs_attention" and page.recovery.measured:
        return _unproven_bar(page, (report, steps))
    return ActionBar(
        "Nothing was measured yet.",
        "",
        Primary("Go on", href=reverse(page.current, args=[page.pk])) if page.current != "verify" else None,
        (steps,),
    )


def _unproven_bar(page: RecoveryPage, links: tuple[Link, ...]) -> ActionBar:
    """Of a proof that does not hold: what is recommended first."""
    recovery, contents = page.recovery, page.plan.contents if page.plan is not None else None
    verify, no_right = reverse("verify", args=[page.pk]), may_why(page.by, Right.RECOVER, page.environment)
    if way := further.find_way(recovery):
        return ActionBar(
            f"Opens a further plan in {recovery.label}. Changes nothing yet.",
            "You see its forecast and seal it before anything runs. The recovery stays open.",
            Primary(f"Plan the {way.says}", post=verify, name="act", value=way.strategy.value),
            (*_end_without(page), *links),
            no_right,
            code="plans-repeated-rows" if way.strategy is Strategy.DEDUPLICATE else "plans-missing-rows",
        )
    beyond = contents is not None and recovery.proof and is_beyond_proof(contents, recovery.proof)
    if beyond and skipping.find_refusal(recovery) is None:
        return ActionBar(
            "Compare the new rows yourself first.",
            "The plan said that they cannot be compared here, so measuring again proves nothing.",
            Primary("End without proof", href=reverse("skip", args=[page.pk])),
            links,
            may_run(page, page.plan),
            code="beyond-proof",
        )
    return ActionBar(
        "Measures every criterion again.",
        "Reads only."
        if contents is not None and contents.corrects_table
        else f"Reads only, except that it starts one further {page.run_noun} to prove that it adds nothing.",
        Primary("Measure again", post=reverse("run", args=[page.pk]), name="confirmed", value="measure"),
        (*_end_without(page), *links),
        no_right,
    )
