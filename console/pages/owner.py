"""Who answers for a recovery: its owner hands it over, or someone takes it over with a reason."""

from functools import partial

from django.http import HttpResponse
from django.urls import reverse

from console.middleware import PageRequest
from console.pages.base import handle_act, page, render_page, require_right
from console.pages.recovery_page import build_frame, read_recovery_page
from recovery.people.roles import Actor, Right
from recovery.workflow import actions, owning
from recovery.workflow.transitions import OPEN


@page(Right.RECOVER, methods=("GET", "POST"))
def change_owner(request: PageRequest, by: Actor, recovery_id: int) -> HttpResponse:
    """GET asks; POST makes `to` the owner (by default oneself)."""
    page = read_recovery_page(recovery_id, by)
    require_right(request, by, Right.RECOVER, page.environment)
    given = {name: request.POST.get(name, "").strip() for name in ("to", "reason", "was")}
    act = partial(
        actions.hand_over, recovery_id=recovery_id, by=by, **{**given, "to": given["to"] or by.name}
    )
    done, refusal = handle_act(request, act, "recovery", page.recovery.label)
    if done is not None:
        return done
    is_owner, people = page.recovery.owner == by.name, owning.candidates(page.recovery)
    why_not = (
        None
        if page.recovery.state in OPEN
        else f"{page.recovery.label} has ended: it needs no owner any more."
    )
    if is_owner and not people and why_not is None:
        why_not = f"No one else may recover in {page.environment}."
    context = {
        **build_frame(page, "run"), "mine": is_owner, "people": people, "given": given, "why_not": why_not,
        "back": reverse(page.current, args=[page.pk]),
    }  # fmt: skip
    return render_page(request, "run/owner.html", context, refusal=refusal)
