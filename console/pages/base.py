"""What every page shares: who acts, with what right, and how a refusal is shown.

`@page(Right.X)` turns the signed-in person into an Actor, checks the right before anything is read,
and audits a denied try. A view changes things only through `recovery.workflow.actions`; `tried` runs
such an act and gives back the refusal to show, so that what was typed is still on the page.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect, render
from django.urls import reverse

from console.middleware import PageRequest
from recovery import reach
from recovery.audit.actions import append_entry
from recovery.audit.aims import find_aim
from recovery.errors import Denied, NotFound, RepriseError, Unreachable
from recovery.people.actions import actor_for_user
from recovery.people.roles import Actor, Right, who_may
from recovery.streams.running import never_run

P = ParamSpec("P")
View = Callable[Concatenate[PageRequest, Actor, P], HttpResponse]
Page = Callable[Concatenate[PageRequest, P], HttpResponse]


def page(right: Right | None, *, methods: Sequence[str] = ("GET",)) -> Callable[[View[P]], Page[P]]:
    """A page for people with this right, anywhere; None: for everybody with an account, about themselves.

    Others: sign-in (no one signed in) or 403, audited.
    """

    def decorate(view: View[P]) -> Page[P]:
        @wraps(view)
        def guarded(request: PageRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if not request.user.is_authenticated:
                return _to_sign_in(request)
            try:
                actor = actor_for_user(request.user, via="page", request_id=request.request_id)
                request.actor = actor
                if request.method not in (*methods, "HEAD"):
                    return HttpResponseNotAllowed(methods)
                if right is not None:
                    require_right(request, actor, right)
                with reach.in_request(), never_run():
                    return view(request, actor, *args, **kwargs)
            except Denied as denied:
                raise PermissionDenied(denied.sentence) from denied
            except NotFound as missing:
                raise Http404(missing.sentence) from missing
            except RepriseError as problem:
                return show_problem(request, problem)

        return cast(Page[P], guarded)  # the same call, without mypy's wrapper type

    return decorate


def _to_sign_in(request: PageRequest) -> HttpResponse:
    """To the sign-in and back. A polling part loads the whole page there."""
    polling = bool(getattr(request, "htmx", False))
    back = request.headers.get("HX-Current-URL", "/") if polling else request.get_full_path()
    target = f"{reverse('sign-in')}?{urlencode({'next': back})}"
    if polling:
        return HttpResponse(status=204, headers={"HX-Redirect": target})
    return redirect(target)


def require_right(request: PageRequest, actor: Actor, right: Right, environment: str | None = None) -> None:
    """Raise Denied unless the actor has the right (there, or anywhere); the try is written down first."""
    try:
        actor.check(right, environment)
    except Denied as denied:
        aim = find_aim(request.resolver_match.kwargs if request.resolver_match else {})
        with transaction.atomic():
            append_entry(
                action="page.denied",
                outcome="denied",
                by=actor,
                target_kind="page",
                target=f"{request.path}: {aim.target}"[:400] if aim.target else request.path[:400],
                recovery=aim.recovery,
                environment=environment or aim.environment,
                pipeline=aim.pipeline,
                says=denied.sentence,
            )
        raise


def render_page(
    request: PageRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    refusal: RepriseError | None = None,
    status: int | None = None,
) -> HttpResponse:
    """Render a page; with a refusal, its sentence is on top and the status is 409 (422 for a form)."""
    code = status or (200 if refusal is None else 403 if isinstance(refusal, Denied) else 409)
    return render(request, template, {**context, "refusal": refusal}, status=code)


def show_problem(request: PageRequest, problem: RepriseError) -> HttpResponse:
    """A page that cannot be shown at all: what does not answer, and what to do."""
    status = 503 if isinstance(problem, Unreachable) else 409
    return render(request, "problem.html", {"problem": problem}, status=status)


def refusal_of(act: Callable[[], object]) -> RepriseError | None:
    """Run one act; the refusal to show on the page, or None. A denial becomes the 403 page."""
    try:
        act()
    except (Denied, NotFound):
        raise
    except RepriseError as refusal:
        return refusal
    return None


def handle_act(
    request: PageRequest, act: Callable[[], object], goal: str, *args: Any
) -> tuple[HttpResponse | None, RepriseError | None]:
    """A page with one act: on POST run it. (redirect to `goal`, None) when it was taken, (None, refusal) when not."""
    if request.method != "POST":
        return None, None
    refusal = refusal_of(act)
    return (None, refusal) if refusal is not None else (redirect(goal, *args), None)


def is_unchanged(request: PageRequest, version: str) -> bool:
    """Does the poller already show this version? Then 204 is answered, and focus and place stay."""
    return request.GET.get("v") == version


def no_news() -> HttpResponse:
    return HttpResponse(status=204)


def may_why(actor: Actor, right: Right, environment: str | None = None) -> str | None:
    """Why a button is disabled for this person, over a flow of this environment; None when it is not."""
    if actor.may(right, environment):
        return None
    return f"Your role, {actor.grant(environment).role.value}, may not {right.value}. Ask {who_may(right)}."
