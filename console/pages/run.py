"""The run, its proof, and the acts that end a recovery. Irreversible ones are asked on a page of their own."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from django.http import HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from console.middleware import PageRequest
from console.pages import run_bars as bars
from console.pages import together
from console.pages.action_bars import may_run
from console.pages.base import handle_act, may_why, page, refusal_of, render_page, require_right
from console.pages.recovery_page import RecoveryPage, build_frame, read_recovery_page, show_live
from console.presenters import (
    approving,
    below,
    called,
    left_behind,
    missing,
    reviewing,
    running,
    status,
    stopping,
    verifying,
)
from recovery.approvals import selectors as approvals
from recovery.approvals.rules import LENIENT
from recovery.contracts import codec
from recovery.contracts.names import ASKED_ONCE_MORE
from recovery.errors import RepriseError, WrongUse
from recovery.models import Stream
from recovery.people.roles import Actor, Right
from recovery.planning.actions import FURTHER, make_further_plan
from recovery.verification.below import uncompared
from recovery.verification.foreseen import is_beyond_proof
from recovery.workflow import actions, further, selectors, skipping, unknowns
from recovery.workflow.awaited import awaited_act
from recovery.workflow.joining import plans_together
from recovery.workflow.steps.rollback import RollbackRefusal
from recovery.workflow.transitions import WAITS
from recovery.workflow.usual import usual_steps

HALTING: Final[Mapping[str, Callable[..., object]]] = {
    "stop": actions.stop_run,
    "pause": actions.pause_run,
    "prove": unknowns.stop_and_prove,
}
"""What you can ask of a run while it runs, or while the end of its step is not known."""


def _rollback_refusal(page: RecoveryPage) -> RollbackRefusal | None:
    """Why it cannot be rolled back; when that cannot be read, that is why."""
    try:
        return selectors.rollback_refusal(page.recovery)
    except RepriseError as problem:
        return RollbackRefusal(problem.sentence, "unread")


@page(Right.VIEW, methods=("GET", "POST"))
def show_run(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Live steps. POST starts the plan or resumes it (`act`: stop or pause it); a full refresh is confirmed first."""
    refusal = None
    if request.method == "POST":
        recovery = selectors.recovery_or_404(recovery_id, by)
        require_right(request, by, Right.RECOVER, recovery.flow.pipeline.environment)
        act = request.POST.get("act", "execute")
        if halting := HALTING.get(act):
            return _request_halt(request, by, recovery_id, halting)
        if act != "execute":  # a name that this page does not know starts nothing
            return HttpResponseBadRequest()
        if (asked := _asked_once_more(request, by, recovery_id)) is not None:
            return asked
        refusal = refusal_of(lambda: together.execute(recovery_id, by, request.POST.get("hash", "")))
        if refusal is None:
            return redirect("run", recovery_id)
    page = read_recovery_page(recovery_id, by)
    return show_live(request, "run/run.html", _run_context(page), refusal=refusal)


def _asked_once_more(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse | None:
    """The page that asks, where a start must be confirmed and was not: there is no way back, or it is production."""
    page = read_recovery_page(recovery_id, by)
    if (
        page.plan is None
        or page.recovery.state not in WAITS
        or approvals.run_refusal(page.recovery, page.plan)
    ):
        return None  # what may not run is not confirmed: the act itself says why
    plans = plans_together(page.plan)
    if not typed_name(page) and not any(plan.contents.strategy in ASKED_ONCE_MORE for plan in plans):
        return None
    if "confirmed" not in request.POST:
        return redirect("confirm", recovery_id)
    typed = request.POST.get("typed", "").strip()
    if not typed_name(page) or typed == typed_name(page):
        return None
    refusal = WrongUse(
        f"That is not the flow's name. Type {typed_name(page)}; nothing was started.", code="not_the_name"
    )
    return render_page(
        request, "run/confirm.html", {**what_to_confirm(page), "typed": typed}, refusal=refusal, status=422
    )


def typed_name(page: RecoveryPage) -> str:
    """What must be typed before a run there; empty where nothing must."""
    return "" if page.recovery.flow.pipeline.environment in LENIENT else page.recovery.flow.short


def what_to_confirm(page: RecoveryPage) -> dict[str, Any]:
    """What is asked once more: the plan, who approved it, what must be typed."""
    assert page.plan is not None, "only a plan is confirmed"
    votes = approvals.votes_in_force(approvals.request_of(page.plan))
    return {
        **build_frame(page, "review"),
        "review": reviewing.plan_view(page.plan),
        "question": approving.ask_for_vote(page.plan.contents, together.contents_of(page.plan)),
        "approved_by": [v.voter for v in votes if v.choice == "approve"],
        "name": typed_name(page),
    }


def _request_halt(
    request: PageRequest, by: Actor, recovery_id: int, act: Callable[..., object]
) -> HttpResponse:
    refusal = refusal_of(lambda: act(recovery_id=recovery_id, by=by))
    if refusal is None:
        return redirect("run", recovery_id)
    return show_live(
        request, "run/run.html", _run_context(read_recovery_page(recovery_id, by)), refusal=refusal
    )


def _read_asked(page: RecoveryPage) -> running.PersonAsked | None:
    """What a person is to do now for the step that runs."""
    step = next(
        (s for s in page.steps if page.plan and s.plan_id == page.plan.pk and s.state == "running"), None
    )
    return running.person_asked(awaited_act(step) if page.is_stream else None)


def _is_stopped_by_hand(page: RecoveryPage) -> bool:
    stream = (
        Stream.objects.filter(pipeline=page.recovery.flow.pipeline_id).first() if page.is_stream else None
    )
    return stream is not None and not stream.has_stop_command


def _run_context(page: RecoveryPage) -> dict[str, Any]:
    stuck = running.stuck_step(page.steps, page.plan) if page.recovery.state == "needs_attention" else None
    usual = usual_steps(page.recovery.flow)
    rows = running.step_rows(page.steps, page.plan, timezone.now(), usual)
    here = next((r.kind for r in rows if r.now), "rerun")
    polls = running.poll_seconds(page.recovery, page.steps)
    refusal = None if polls == 1 else _rollback_refusal(page)
    asked = _read_asked(page)
    if asked is not None:
        rows, usual = running.mark_waiting(rows), {}
    by_others = stuck is not None and skipping.is_started_by_others(page.recovery)
    no_way_back = by_others and skipping.bars_way_back(refusal)
    no_skip = skipping.find_refusal(page.recovery, no_way_back=no_way_back) if stuck is not None else None
    context = {
        **build_frame(page, "run", here=here if here in ("seed", "rerun", "verify") else "rerun"),
        "steps": rows,
        "progress": running.describe_progress(rows, page.steps, usual, timezone.now()),
        "log": running.log_lines([s for s in page.steps if page.plan and s.plan_id == page.plan.pk]),
        "stuck": stuck,
        "refusal_back": refusal,
        "halt": page.recovery.chosen.halt,
        "why_not_stop": may_why(page.by, Right.RECOVER, page.environment),
        "poll": polls,
        "bar": bars.run_bar(page, stuck, refusal, no_skip, asked=asked, by_others=by_others),
        "asked": asked,
        "stops_by_hand": _is_stopped_by_hand(page),
        "last_sign": running.last_sign(page.steps),
    }
    context["badge"] = _run_badge(page, rows, waits=asked is not None)
    if stuck is not None:
        proven, open_ = stopping.evidence_rows(stuck)
        context |= {
            "asks": running.run_asks(page.recovery, stuck, by_others=by_others),
            "proven": proven,
            "not_proven": [*open_, *running.list_open_questions(stuck)],
        }
        context |= {
            "probe": running.probe_view(stuck),
            "statements": stuck.notes.statements,
            "stopping": unknowns.find_stop_wish(stuck),
            "resume": bars.resume_beside(page, stuck),
            "resume_at": reviewing.STEP_NAMES.get(stuck.kind, stuck.kind),
            "called": called.who_to_call(page.recovery),
        }
        context["ladder"] = running.run_ladder(page.recovery, stuck, refusal, no_skip, by_others=by_others)
    return context


def _run_badge(page: RecoveryPage, rows: list[running.RunStepRow], *, waits: bool) -> status.Badge:
    now = next((r for r in rows if r.now), None)
    if now is None:
        return status.state_badge(status.RECOVERY, page.recovery.state)
    if waits:
        return status.Badge("attention", f"{now.name}: waiting for you")
    return status.Badge(now.badge.kind, f"{now.name}: {now.badge.word.lower()}", now.badge.spin)


@page(Right.VIEW)
def raw_log(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Every line as plain text, to keep or to send."""
    page = read_recovery_page(recovery_id, by)
    lines = [f"{line.at} {line.step} {line.text}" for line in running.log_lines(page.steps)]
    name = f"{page.recovery.label}.log"
    return HttpResponse(
        "\n".join(lines) + "\n",
        content_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@page(Right.VIEW, methods=("GET", "POST"))
def show_verification(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """What was measured against what was fixed in the plan. POST has a further plan made, of the strategy `act`."""
    refusal = None
    if request.method == "POST":
        recovery = selectors.recovery_or_404(recovery_id, by)
        require_right(request, by, Right.RECOVER, recovery.flow.pipeline.environment)
        strategy = next((s for s in FURTHER if s == request.POST.get("act")), None)
        if strategy is None:
            return HttpResponseBadRequest()
        refusal = refusal_of(lambda: make_further_plan(recovery_id=recovery_id, strategy=strategy, by=by))
        if refusal is None:
            return redirect("review", recovery_id)
    return show_live(
        request, "run/verify.html", _verification(read_recovery_page(recovery_id, by)), refusal=refusal
    )


def _verification(page: RecoveryPage) -> dict[str, object]:
    way = further.find_way(page.recovery)
    measured = page.recovery.proof
    contents = page.plan.contents if page.plan is not None else None
    rows = verifying.criterion_rows(measured, contents.criteria if contents else ())
    forecast = contents.forecast if contents else None
    accepted = reviewing.list_acceptances(page.plan) if page.plan else ()
    verdict = verifying.proof_verdict(page.recovery, measured, accepted, forecast)
    against = verifying.forecast_against_outcome(forecast, measured) if forecast and measured else []
    stands_still = page.recovery.state == "needs_attention" and bool(measured)
    starts_none = contents is not None and contents.corrects_table
    asked = _read_asked(page)
    refused = _rollback_refusal(page) if stands_still else None
    ways = partial(
        verifying.ways_on,
        misread=verifying.misread_columns(measured),
        way=way,
        run_noun="" if starts_none else page.run_noun,
        is_beyond_proof=bool(contents and measured and is_beyond_proof(contents, measured)),
    )
    return {
        **build_frame(page, "verify"),
        "verdict": verdict,
        "ladder": ways(verdict, refused.says if refused else None, skipping.find_refusal(page.recovery))
        if stands_still
        else [],
        "measure_again": way is not None,
        "called": called.who_to_call(page.recovery) if stands_still else [],
        "measured": measured,
        "criteria": rows,
        "counted": verifying.count_criteria(rows),
        "against": against,
        "forecast_wrong": any(a.bad for a in against),
        "samples": verifying.sample_rows(measured),
        "missing": missing.missing_rows(measured) if measured else None,
        "changed_files": missing.changed_files(measured) if measured else None,
        "whole_flow": verifying.whole_flow(measured),
        "whole_facts": verifying.whole_facts(measured),
        "not_measured": verifying.not_measured(measured),
        "tables_below": below.compare_refreshed(measured),
        "times": verifying.list_times(page.recovery, page.plan, page.steps),
        "held": stopping.held_rows(list(page.recovery.holds.order_by("pk"))),
        "strategy": contents.strategy if contents else None,
        "uncompared": uncompared(measured),
        "left_behind": [
            *left_behind.cost_rows(measured),
            *left_behind.start_option_rows(page.recovery, page.steps),
        ],
        "may_take_out": bars.may_take_out(page),
        "why_not": may_why(page.by, Right.RECOVER, page.environment),
        "below_left": below.effect_rows(forecast.left_behind) if forecast else [],
        "poll": 1 if page.recovery.state in running.LIVE else 0,
        "bar": bars.verify_bar(page, asked),
        "asked": asked,
    }


@page(Right.RECOVER)
def confirm_run(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Asked once more before a table is emptied: what, which, and that there is no way back."""
    page = read_recovery_page(recovery_id, by)
    require_right(request, by, Right.RECOVER, page.environment)
    if page.plan is None:
        return redirect("review", recovery_id)
    return render_page(request, "run/confirm.html", what_to_confirm(page))


@page(Right.RECOVER, methods=("GET", "POST"))
def confirm_rollback(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Undo what can be undone, with a reason."""
    require_right(request, by, Right.RECOVER, read_recovery_page(recovery_id, by).environment)
    reason = request.POST.get("reason", "").strip()
    act = partial(together.roll_back, recovery_id, by, reason, request.POST.get("hash", ""))
    done, refusal = handle_act(request, act, "run", recovery_id)
    if done is not None:
        return done
    page = read_recovery_page(recovery_id, by)
    refused = _rollback_refusal(page)
    context = {
        **build_frame(page, "run", here="seed"),
        "reason": reason,
        "why_not": refused.says if refused else None,
    }
    return render_page(request, "run/rollback.html", context, refusal=refusal)


@page(Right.RECOVER, methods=("GET", "POST"))
def skip_step(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Skip the step at which it is, with a reason; without its proof the recovery ends as unproven."""
    page = read_recovery_page(recovery_id, by)
    require_right(request, by, Right.RECOVER, page.environment)
    reason = request.POST.get("reason", "").strip()
    act = partial(actions.skip_step, recovery_id=recovery_id, by=by, reason=reason)
    done, refusal = handle_act(request, act, "recovery", page.recovery.label)
    if done is not None:
        return done
    at = running.halted_step(page.steps, page.plan)
    context = {
        **build_frame(page, "run", here="verify" if at is not None and at.kind == "verify" else "rerun"),
        "reason": reason,
        "step": running.offer_skip(at),
        "back": reverse(page.current, args=[page.pk]),
        "why_not": skipping.find_refusal(page.recovery) or may_run(page, page.plan),
    }
    return render_page(request, "run/skip.html", context, refusal=refusal)


@page(Right.RECOVER, methods=("GET", "POST"))
def record_statement(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Say what you know of a step of which no one saw the end: recorded beside the evidence, with your name."""
    page = read_recovery_page(recovery_id, by)
    require_right(request, by, Right.RECOVER, page.environment)
    says = request.POST.get("reason", "").strip()
    act = partial(unknowns.say_known, recovery_id=recovery_id, says=says, by=by)
    done, refusal = handle_act(request, act, "run", recovery_id)
    if done is not None:
        return done
    at = running.halted_step(page.steps, page.plan)
    context = {**build_frame(page, "run", here="rerun"), "reason": says, "step": running.offer_skip(at)}
    return render_page(
        request, "run/statement.html", context, refusal=refusal, status=422 if refusal else None
    )


@page(Right.VIEW)
def show_evidence(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Evidence, probe and statements of the step at which it is, as JSON."""
    page = read_recovery_page(recovery_id, by)
    at = running.halted_step(page.steps, page.plan)
    described = codec.to_json(unknowns.describe_step(at)) if at is not None else {}
    return JsonResponse({"recovery": page.recovery.label, **described})


@page(Right.RECOVER, methods=("GET", "POST"))
def cancel_recovery(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """End a recovery that has changed nothing, with a reason."""
    reason, page = request.POST.get("reason", "").strip(), read_recovery_page(recovery_id, by)
    require_right(request, by, Right.RECOVER, page.environment)
    act = partial(together.cancel, recovery_id, by, reason)
    is_further = further.may_be_given_up(page.recovery)
    where = ("verify", recovery_id) if is_further else ("flow", page.recovery.flow_id)
    done, refusal = handle_act(request, act, *where)
    if done is not None:
        return done
    back = reverse(page.current, args=[page.pk])
    context = {
        **build_frame(page, "diagnose"),
        "reason": reason,
        "back": back,
        "further": is_further,
        "why_not": may_why(by, Right.RECOVER, page.environment),
    }
    return render_page(request, "run/cancel.html", context, refusal=refusal)
