"""The wizard's first five steps. Each POST is one saved choice; each GET shows where the recovery is."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils import timezone

from console.forms import wizard as forms
from console.middleware import PageRequest
from console.pages import action_bars, source, together
from console.pages.approvals import approval_panel
from console.pages.base import (
    handle_act,
    is_unchanged,
    may_why,
    no_news,
    page,
    refusal_of,
    render_page,
    require_right,
)
from console.pages.jobs import jobs_of_page
from console.pages.recovery_page import RecoveryPage, build_frame, read_recovery_page, show_live
from console.presenters import (
    below,
    checkpoint,
    diff,
    outlook,
    patching,
    reviewing,
    running,
    status,
    stepper,
    stopping,
    turning,
)
from console.presenters import wizard as words
from recovery.contracts.choices import ChoicesChange
from recovery.diagnosis.advice import meant_of
from recovery.errors import Denied, RepriseError, WrongUse
from recovery.models import Stream
from recovery.people.roles import Actor, Right
from recovery.planning import actions as planning
from recovery.plans.accepted import written_costs
from recovery.sources import targets
from recovery.strategies.catalogue import EXECUTABLE, NEEDS_START, POSITIONED
from recovery.strategies.recommending import decision
from recovery.workflow import actions, positioning, selectors, ways
from recovery.workflow.awaited import awaited_act
from recovery.workflow.outdated import outdating_of
from recovery.workflow.transitions import OPEN, WAITS
from recovery.workflow.usual import usual_look, usual_steps


def _say_meant(post: QueryDict, recovery_id: int, by: Actor) -> None:
    meant = meant_of(post.get("meant", ""))
    if meant is None:
        raise WrongUse("Say whether the change was meant: yes, no or unknown.", code="bad_choice")
    planning.update_choices(recovery_id=recovery_id, change=ChoicesChange(meant=meant), by=by)


@page(Right.VIEW, methods=("GET", "POST"))
def diagnose_step(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """What happened, how bad, what to do. POST says whether the change was meant; else nothing is changed here."""
    done, refusal = handle_act(
        request, partial(_say_meant, request.POST, recovery_id, by), "diagnose", recovery_id
    )
    if done is not None:
        return done
    page = read_recovery_page(recovery_id, by)
    recovery = page.recovery
    meant, diagnosis = recovery.chosen.meant, recovery.diagnosis_value
    context = {
        **build_frame(page, "diagnose"),
        "diagnosis": diagnosis,
        "asks": words.trouble_summary(
            diagnosis,
            recovery.gathered,
            has_plan=page.plan is not None,
            is_over=recovery.state not in OPEN,
            is_outdated=outdating_of(recovery) is not None,
        ),
        "meant": words.meant_question(diagnosis, meant),
        "why_not_say": action_bars.may_edit(page)
        if recovery.state == "diagnosing"
        else "A plan holds what was chosen.",
        "ladder": words.advice_ladder(diagnosis, meant, recovery.gathered.judged),
        "operators": words.operator_rows(diagnosis),
        "bar": action_bars.diagnose_bar(page),
    }
    return show_live(request, "wizard/diagnose.html", context, refusal=refusal)


@page(Right.VIEW, methods=("GET", "POST"))
def stop_step(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """POST asks a worker to stop the pipeline; the page then shows what was read back."""
    act = partial(actions.request_stop, recovery_id=recovery_id, by=by)
    done, refusal = handle_act(request, act, "stop", recovery_id)
    if done is not None:
        return done
    page = read_recovery_page(recovery_id, by)
    step = page.early_stop
    asked = running.person_asked(awaited_act(step) if page.is_stream else None)
    context = {
        **build_frame(page, "stop"),
        "step": step,
        "verdict": stopping.stop_verdict(step, is_stream=page.is_stream, asked=asked),
        "bar": action_bars.stop_bar(page, asked),
    }
    pipeline = page.recovery.flow.pipeline
    stream = Stream.objects.filter(pipeline=pipeline).first() if page.is_stream else None
    context["asks"] = stopping.stop_asks(page.recovery.flow, list(pipeline.flows.all()), stream)
    context["log"] = stopping.log_lines(step)
    holds = list(pipeline.holds.order_by("pk"))[-20:]
    context["jobs"] = stopping.job_rows(step, holds, is_stream=page.is_stream)
    context["poll"] = 1 if step is not None and step.state in ("pending", "running", "unknown") else 0
    return show_live(request, "wizard/stop.html", context, refusal=refusal)


@page(Right.VIEW, methods=("GET", "POST"))
def offset_step(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Compare the strategies by this flow's numbers and choose one. `act=facts` counts (again), `act=meant` says
    whether the change was meant."""
    refusal, form = None, forms.StrategyForm()
    acts = {
        "facts": partial(actions.request_facts, recovery_id=recovery_id, by=by),
        "meant": partial(_say_meant, request.POST, recovery_id, by),
    }
    act = acts.get(str(request.POST.get("act"))) if request.method == "POST" else None
    if act is not None:
        refusal = refusal_of(act)
        if refusal is None:
            return redirect("offset", recovery_id)
    elif request.method == "POST":
        form = forms.StrategyForm(request.POST)
        refusal = refusal_of(
            lambda: planning.update_choices(recovery_id=recovery_id, change=form.read_change(), by=by)
        )
        if refusal is None:
            return redirect(_after_strategy(request, by, recovery_id), recovery_id)
    page = read_recovery_page(recovery_id, by)
    context = {
        **build_frame(page, "offset"),
        **_offset_context(page, form),
        "bar": action_bars.offset_bar(page),
    }
    code = 422 if refusal and not isinstance(refusal, Denied) and form.is_bound else None
    return show_live(request, "wizard/offset.html", context, refusal=refusal, status=code)


def _after_strategy(request: PageRequest, by: Actor, recovery_id: int) -> str:
    """Patch code; or the start offsets, where they were asked for or are needed: they are looked up on the way."""
    recovery = selectors.recovery_or_404(recovery_id, by)
    needed = recovery.chosen.strategy in NEEDS_START and not recovery.chosen.positions
    if request.POST.get("next") != "positions" and not needed:
        return "patch"
    if not recovery.chosen.positions_look.status:
        wanted = recovery.chosen.positions
        refusal_of(lambda: positioning.request_positions(recovery_id=recovery_id, positions=wanted, by=by))
    return "positions"


def _offset_context(page: RecoveryPage, form: forms.StrategyForm) -> dict[str, Any]:
    recovery = page.recovery
    facts = recovery.gathered
    options = ways.options_of(recovery)
    judged = ways.ways_of(recovery)
    meant = recovery.chosen.meant
    typed = form.data.get("strategy") or recovery.chosen.strategy or ""
    key = form.data.get("key", ", ".join(recovery.chosen.key))
    details = [
        (
            o.strategy.value,
            words.position_rows(o.positions),
            checkpoint.finding_rows([judged.as_dict() for judged in o.findings]),
            o.strategy in POSITIONED,
        )
        for o in options
    ]
    diagnosis = recovery.diagnosis_value
    decided = decision(options, diagnosis, meant)
    return {
        "facts": facts,
        "decided": decided,
        "compare": words.compare_strategies(
            options,
            str(typed),
            EXECUTABLE,
            recommended=decided.strategy,
            sink=facts.sink.is_declared,
        ),
        "ways": judged,
        "cannot_undo": any(not o.undoable for o in options if o.strategy == decided.strategy),
        "turns": turning.turn_rows(judged),
        "rules": turning.rule_rows(decided.rule),
        "meant": words.meant_question(diagnosis, meant),
        "why_not_say": action_bars.may_edit(page)
        if recovery.state == "diagnosing"
        else "A plan holds what was chosen.",
        "ask_meant": meant is None and words.meant_question(diagnosis, meant) is not None,
        "details": details,
        "key": key,
        "key_line": words.key_line(facts.key, facts.key_from, whole_rows=facts.whole_rows),
        "key_characters": forms.KEY_CHARACTERS,
        "to": form.data.get("to", targets.target_text(held) if (held := recovery.chosen.target) else ""),
        "targets": targets.FORMS,
        "poll": 1 if facts.is_working else 0,
        "usual": usual_look(page.recovery.flow, "facts") if facts.is_working else None,
    }


@page(Right.VIEW, methods=("GET", "POST"))
def patch_step(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Edit, save, validate, keep. What was typed stays on the page when an act is refused."""
    if request.GET.get("part") == "validation":
        return _validation_panel(request, by, recovery_id)
    refusal, typed = None, None
    page = read_recovery_page(recovery_id, by)
    if request.method == "POST":
        require_right(request, by, Right.RECOVER, page.environment)
        typed = forms.read_edits(request.POST)
        refusal, goal = _patch_act(request.POST, typed, recovery_id, by)
        if refusal is None:
            return redirect(goal, recovery_id)
        page = read_recovery_page(recovery_id, by)
    has_run = not page.recovery.active or page.recovery.state in stepper.RAN
    if page.plan is not None and has_run:  # the workspace may hold its code already
        return show_live(request, "wizard/patch_ended.html", _patch_that_ran(page))
    context = {
        **build_frame(page, "patch"),
        "bar": action_bars.patch_bar(page),
        "validation": patching.validation_result(page.recovery),
    }
    context["poll"] = 0
    context["poll_validation"] = page.recovery.chosen.validation.status == "working"
    try:
        context |= _editors_context(page, typed)
    except RepriseError as problem:
        context |= {"problem": problem}
    return show_live(request, "wizard/patch.html", context, refusal=refusal, status=422 if refusal else None)


def _patch_act(
    post: QueryDict, typed: dict[str, str], recovery_id: int, by: Actor
) -> tuple[RepriseError | None, str]:
    """Save first, then what the button says. Only files that differ from the workspace are a patch."""
    act = post.get("act", "save")
    recovery = selectors.recovery_or_404(recovery_id, by)
    read: list[dict[str, str]] = []
    refusal = refusal_of(lambda: read.append(selectors.source_files(recovery)))
    if refusal is None:
        files = patching.changed_files(read[0], typed)
        change = ChoicesChange(patch=files)
        refusal = refusal_of(lambda: planning.update_choices(recovery_id=recovery_id, change=change, by=by))
    if refusal is None and act == "validate":
        refusal = refusal_of(lambda: actions.request_validation(recovery_id=recovery_id, by=by))
    return refusal, "review" if act == "keep" else "patch"


def _patch_that_ran(page: RecoveryPage) -> dict[str, Any]:
    """The code as the sealed plan has it, once the plan has run: nothing of it is read again."""
    assert page.plan is not None
    sealed = page.plan.contents.patch
    before = {change.path: change.before for change in sealed}
    after = {change.path: change.after for change in sealed}
    return {
        **build_frame(page, "patch"),
        "bar": action_bars.patch_bar(page),
        "diffs": [d for d in diff.compare_all(before, after) if d.changed],
        "written": next((s for s in page.steps if s.plan_id == page.plan.pk and s.kind == "patch"), None),
    }


def _editors_context(page: RecoveryPage, typed: dict[str, str] | None) -> dict[str, Any]:
    """Files with their text to edit, and the diff of what would run against what last ran well."""
    source_read = source.read_source(page.recovery.flow)
    texts = patching.wanted_source(page.recovery, source_read.now, source_read.good, typed)
    base = source_read.good or source_read.now
    diffs = diff.compare_all(base, texts)
    against_now = diff.compare_all(source_read.now, texts)
    return {
        "source": source_read,
        "editors": patching.list_editors(texts, source_read.now, page.recovery.flow),
        "diffs": [d for d in diffs if d.changed],
        "written": [d for d in against_now if d.changed],
        "advice": patching.advise_patch(page.recovery, source_read.now, texts, bool(source_read.good)),
        "checks": patching.check_text(page.recovery, against_now),
        "read_at": timezone.now(),
    }


def _validation_panel(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """Only the panel: polling it must not touch what someone is typing."""
    page = read_recovery_page(recovery_id, by)
    state = page.recovery.chosen.validation.status
    context = {
        **build_frame(page, "patch"),
        "validation": patching.validation_result(page.recovery),
        "may_edit": action_bars.may_edit(page),
    }
    context["poll_validation"] = state == "working"
    if state == "working" and is_unchanged(request, context["version"]):
        return no_news()
    return render_page(request, "wizard/_validation.html", context)


def _review_act(post: QueryDict, recovery_id: int, by: Actor) -> Callable[[], object]:
    if post.get("act") == "ask":
        given = {"reason": str(post.get("reason", "")), "plan_hash": str(post.get("hash", ""))}
        return partial(together.request_approval, recovery_id, by, given["reason"], given["plan_hash"])
    if post.get("act") == "join":
        return partial(
            together.seal_together, recovery_id, by, [str(label) for label in post.getlist("with")]
        )
    if post.get("act") == "accept":
        return partial(_accept_and_seal, post, recovery_id, by)
    if post.get("act") in ("below", "no-below"):
        change = ChoicesChange(refresh_below=post["act"] == "below")
        return partial(planning.update_choices, recovery_id=recovery_id, change=change, by=by)
    act = actions.edit_again if post.get("act") == "edit" else planning.request_plan
    return partial(act, recovery_id=recovery_id, by=by)


def _accept_and_seal(post: QueryDict, recovery_id: int, by: Actor) -> None:
    planning.accept_and_seal(recovery_id=recovery_id, by=by, **forms.AcceptForm(post).accepted())


def _way_back_closed(page: RecoveryPage) -> str:
    """Of an ended recovery: why it cannot be rolled back any more, "" where it can, or where that cannot be read."""
    if page.recovery.active or page.plan is None:
        return ""
    try:
        refused = selectors.rollback_refusal(page.recovery)
    except RepriseError:
        return ""
    return refused.says if refused else ""


def _outlook_of(page: RecoveryPage) -> outlook.Outlook | None:
    return outlook.describe_outlook(
        page.recovery.gathered, str(page.recovery.chosen.strategy), action_bars.costs_to_accept(page)
    )


def _sealed_review(page: RecoveryPage) -> reviewing.Review | None:
    """The plan in force; before it runs with how long its steps take."""
    if page.plan is None:
        return None
    waits = page.recovery.state in WAITS
    return reviewing.plan_view(page.plan, usual_steps(page.recovery.flow) if waits else None)


@page(Right.VIEW, methods=("GET", "POST"))
def review_step(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """One page, no tabs: what, where, why, rows, positions, code, votes, way back. POST seals; `act=edit` takes it
    back, `act=accept` accepts what it costs and seals, `act=ask` asks for approval of the plan that was read;
    `act=below` and `no-below` choose what becomes of what is below; `act=join` seals the plan together with the others
    of its pipeline that wait."""
    done, refusal = handle_act(request, _review_act(request.POST, recovery_id, by), "review", recovery_id)
    if done is not None:
        return done
    page = read_recovery_page(recovery_id, by)
    chosen = page.recovery.chosen
    sealing = chosen.sealing
    void = selectors.void_plan_of(page.recovery)
    costs = reviewing.list_costs(action_bars.costs_to_accept(page), chosen.accepted)
    context = {
        **build_frame(page, "review"),
        "sealing": sealing,
        "void": reviewing.describe_void(void) if void is not None else None,
        "review": _sealed_review(page),
        "jobs_below": jobs_of_page(page.recovery.flow),
        "costs": costs,
        "costs_shown": written_costs(action_bars.costs_to_accept(page)),
        "outlook": _outlook_of(page) if costs else None,
        "reason": str(request.POST.get("reason", "")),
        "approval": approval_panel(page.recovery, page.plan, by),
        "may_ask": page.plan is not None and action_bars.may_ask(page, page.plan) is None,
        "waits": page.recovery.state in WAITS,
        "why_not_edit": may_why(by, Right.RECOVER, page.environment)
        if page.recovery.state in WAITS
        else action_bars.may_edit(page),
        "bar": action_bars.review_bar(page, void),
        "join": together.offer_join(page.recovery),
        "below": below.refresh_choice(page.recovery) if page.recovery.state == "diagnosing" else None,
        "way_back_closed": _way_back_closed(page),
        "poll": 1 if sealing.status == "working" else 0,
        "usual": usual_look(page.recovery.flow, "sealing") if sealing.status == "working" else None,
    }
    if page.recovery.state == "awaiting_approval" and not context["poll"]:
        context |= {"poll": 5, "version": f"{context['version']}-{len(context['approval']['votes'])}"}
    if costs and sealing.status != "working":
        context["badge"] = status.Badge("attention", reviewing.unaccepted_badge(costs))
    if void is not None and not context["void"].replaced and sealing.status != "working":
        context["badge"] = status.Badge("failed", "Plan void, nothing ran")
    return show_live(request, "wizard/review.html", context, refusal=refusal)
