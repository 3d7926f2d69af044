"""Start offsets: each source's position, what another start would cost, and choosing it: look first."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect

from console.forms import positions as forms
from console.middleware import PageRequest
from console.pages import action_bars
from console.pages.base import page, refusal_of, require_right
from console.pages.recovery_page import RecoveryPage, build_frame, read_recovery_page, show_live
from console.presenters import positions as words
from recovery.contracts.acceptance import Effect
from recovery.contracts.choices import ChoicesChange
from recovery.errors import Refused, WrongUse
from recovery.people.roles import Actor, Right
from recovery.planning import actions as planning
from recovery.workflow import positioning
from recovery.workflow.studies import looked_sources


@page(Right.VIEW, methods=("GET", "POST"))
def choose_positions(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """POST `act=look` (what is typed), `all` (a time for every source), `choose` (what was looked at), `committed`,
    `confirm` (which source is which)."""
    refusal = None
    if request.method == "POST":
        page = read_recovery_page(recovery_id, by)
        require_right(request, by, Right.RECOVER, page.environment)
        refusal = refusal_of(lambda: _handle_act(request, page, by))
        if refusal is None:
            return redirect("patch" if request.POST.get("act") == "choose" else "positions", recovery_id)
    page = read_recovery_page(recovery_id, by)
    context = {**build_frame(page, "positions", here="offset"), **_show_positions(request, page)}
    code = 422 if isinstance(refusal, WrongUse) else None
    return show_live(request, "wizard/positions.html", context, refusal=refusal, status=code)


def _handle_act(request: PageRequest, page: RecoveryPage, by: Actor) -> None:
    post, sources = request.POST, looked_sources(page.recovery)
    act = post.get("act", "look")
    if act == "choose":
        _choose_looked(request, page, by)
        return
    if act == "confirm":
        change = ChoicesChange(confirmed=tuple(post.getlist("confirm")))
        planning.update_choices(recovery_id=page.pk, change=change, by=by)
        return
    if act == "committed":
        planning.update_choices(recovery_id=page.pk, change=ChoicesChange(positions={}), by=by)
        wanted = {}
    else:
        looked = page.recovery.chosen.positions_look.wishes or {}
        wanted = (
            forms.read_common_time(post, sources)
            if act == "all"
            else forms.read_wishes(post, sources, looked)
        )
    positioning.request_positions(recovery_id=page.pk, positions=wanted, by=by)


def _choose_looked(request: PageRequest, page: RecoveryPage, by: Actor) -> None:
    """What was looked at, as the page showed it: a newer look has another ticket."""
    if request.POST.get("ticket") != page.recovery.chosen.positions_look.ticket:
        raise Refused(
            "Someone has looked up other positions since this page was shown. Read these first.",
            code="stale_look",
        )
    ticked = request.POST.getlist("accept")
    change = ChoicesChange(
        positions=page.recovery.chosen.positions_look.wishes or {},
        accept=frozenset(effect for effect in Effect if effect.value in ticked),
    )
    planning.update_choices(recovery_id=page.pk, change=change, by=by)


def _show_positions(request: PageRequest, page: RecoveryPage) -> dict[str, Any]:
    wanted, everything = request.GET.get("part-name", "").strip(), request.GET.get("show") == "all"
    typed = {name: str(value) for name, value in request.POST.items()}
    sources = looked_sources(page.recovery)
    shown = words.positions_page(page.recovery, sources, wanted=wanted, everything=everything, typed=typed)
    return {
        "bar": action_bars.positions_bar(page, sources),
        "positions": shown,
        "sources": words.source_matches(page.recovery, positioning.mapping_of(page.recovery)),
        "takes": words.takes_positions(page.recovery.chosen.strategy or ""),
        "strategy": page.recovery.chosen.strategy or "",
        "wanted": wanted,
        "everything": everything,
        "at": typed.get("at", ""),
        "may_edit": action_bars.may_edit(page) is None and page.recovery.state == "diagnosing",
        "poll": 1 if shown.status == "working" else 0,
    }
