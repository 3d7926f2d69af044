"""Start offsets: where each source stands, what another start would cost, and choosing it: look first."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect

from console.forms import positions as forms
from console.middleware import Request
from console.pages import bars
from console.pages.base import page, refusal_of, require_right
from console.pages.frame import RecoveryPage, build_frame, read_scene, show_live
from console.presenters import positions as words
from recovery.errors import Refused, WrongUse
from recovery.people.roles import Actor, Right
from recovery.workflow import positioning
from recovery.workflow.studies import looked


@page(Right.VIEW, methods=("GET", "POST"))
def choose_positions(request: Request, by: Actor, recovery_id: int) -> HttpResponse:
    """POST `act=look` (what is typed), `all` (a time for every source), `choose` (what was looked at), `committed`,
    `confirm` (which source is which)."""
    refusal = None
    if request.method == "POST":
        of = read_scene(recovery_id, by)
        require_right(request, by, Right.RECOVER, of.environment)
        refusal = refusal_of(lambda: _act(request, of, by))
        if refusal is None:
            return redirect("patch" if request.POST.get("act") == "choose" else "positions", recovery_id)
    of = read_scene(recovery_id, by)
    context = {**build_frame(of, "positions", here="offset"), **_shown(request, of)}
    code = 422 if isinstance(refusal, WrongUse) else None
    return show_live(request, "wizard/positions.html", context, refusal=refusal, status=code)


def _act(request: Request, of: RecoveryPage, by: Actor) -> None:
    post, look = request.POST, looked(of.recovery)
    act = post.get("act", "look")
    if act == "choose":
        _choose(request, of, by, look)
        return
    if act == "confirm":
        positioning.confirm_sources(recovery_id=of.pk, confirmed=post.getlist("confirm"), by=by)
        return
    if act == "committed":
        positioning.choose_positions(recovery_id=of.pk, positions={}, by=by)
        wanted = {}
    else:
        wanted = forms.read_common_time(post, look) if act == "all" else forms.read_wishes(post, look)
    positioning.request_positions(recovery_id=of.pk, positions=wanted, by=by)


def _choose(request: Request, of: RecoveryPage, by: Actor, look: dict[str, Any]) -> None:
    """What was looked at, as the page showed it: a newer look has another ticket."""
    if request.POST.get("ticket") != look.get("ticket"):
        raise Refused(
            "Someone has looked up other positions since this page was shown. Read these first.",
            code="stale_look",
        )
    accepted = request.POST.getlist("accept")
    positioning.choose_positions(
        recovery_id=of.pk,
        positions=positioning.wished(look),
        by=by,
        accept_loss="loss" in accepted,
        accept_repeats="repeats" in accepted,
    )


def _shown(request: Request, of: RecoveryPage) -> dict[str, Any]:
    wanted, everything = request.GET.get("part-name", "").strip(), request.GET.get("show") == "all"
    typed = {name: str(value) for name, value in request.POST.items()}
    look = looked(of.recovery)
    shown = words.positions_page(of.recovery, look, wanted=wanted, everything=everything, typed=typed)
    return {
        "bar": bars.positions_bar(of, look),
        "positions": shown,
        "sources": words.source_matches(of.recovery, positioning.mapping_of(of.recovery)),
        "takes": words.takes_positions(of.recovery.choices.get("strategy") or ""),
        "strategy": of.recovery.choices.get("strategy") or "",
        "wanted": wanted,
        "everything": everything,
        "at": typed.get("at", ""),
        "may_edit": bars.may_edit(of) is None and of.recovery.state == "diagnosing",
        "poll": 1 if shown.status == "working" else 0,
    }
