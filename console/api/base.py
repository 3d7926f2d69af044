"""What every route shares: a token says who acts, a JSON object goes in and comes out, a refusal has its status.

Sessions and cookies count for nothing here, so that no page of another site can act through a browser.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse, JsonResponse
from django.urls import URLPattern
from django.views.decorators.csrf import csrf_exempt

from console import texts
from console.middleware import PageRequest
from recovery import reach
from recovery.audit.actions import audited_attempt
from recovery.audit.aims import find_aim
from recovery.audit.origin import client_address
from recovery.errors import Denied, NotFound, RepriseError, Unreachable, WrongUse
from recovery.people.actions import actor_for_token
from recovery.people.roles import Actor, Right
from recovery.streams.running import never_run

STATUS: Final[Mapping[type[RepriseError], int]] = {
    WrongUse: 400,
    Denied: 403,
    NotFound: 404,
    Unreachable: 503,
}  # everything else that was refused: 409
Body = dict[str, Any]
Act = Callable[..., tuple[int, Body]]  # (request body, actor, what the address names) -> (status, answer)
Acts = tuple[Right, Act]  # the right that it asks for, somewhere; where, is checked by what it does


class Unauthenticated(Exception):
    """No one who may act: no token, or none that is good. One sentence."""


def make_route(**acts: Acts) -> Callable[..., HttpResponse]:
    """A view that answers the methods named, each with its act."""

    @csrf_exempt
    def view(request: PageRequest, **named: Any) -> HttpResponse:
        if request.method not in acts:
            methods = ", ".join(sorted(acts))
            says = f"{request.method} is not answered here; {methods} is."
            return _problem_response(405, "wrong_method", says, headers={"Allow": methods})
        right, act = acts[request.method]
        try:
            by = request.actor = _read_actor(request)
            _check_right(request, by, right, named)
            with reach.in_request(), never_run():
                status, answer = act(_read_body(request), by, **named)
        except Unauthenticated as nobody:
            return _problem_response(401, "no_token", str(nobody), headers={"WWW-Authenticate": "Bearer"})
        except RepriseError as refusal:
            return _problem_response(_status_of(refusal), refusal.code, refusal.sentence, flags=refusal.flags)
        return JsonResponse(answer, status=status)

    view.acts = acts  # type: ignore[attr-defined]
    return view


def acts_of(route: URLPattern) -> list[tuple[str, Act]]:
    """(method, act) of one address of this API."""
    acts: dict[str, Acts] = route.callback.acts  # type: ignore[attr-defined]
    return [(method, act) for method, (_, act) in acts.items()]


def _read_actor(request: PageRequest) -> Actor:
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not text.strip():
        raise Unauthenticated(
            "Send your access token: Authorization: Bearer <token>. Make one on your Account page."
        )
    address = client_address(request.META, settings.REPRISE_TRUSTED_PROXIES)
    try:
        return actor_for_token(text, via="api", request_id=request.request_id, address=address)
    except Denied as denied:
        if denied.code == "too_many":
            raise
        raise Unauthenticated(denied.sentence) from denied


def _check_right(request: PageRequest, by: Actor, right: Right, named: Mapping[str, Any]) -> None:
    """Raise Denied, audited, where the actor has the right nowhere."""
    if not by.may(right):
        aim = find_aim(named)
        with audited_attempt(
            action="api.denied",
            by=by,
            target_kind="api",
            target=f"{request.path}: {aim.target}"[:400] if aim.target else request.path[:400],
            recovery=aim.recovery,
            environment=aim.environment,
            pipeline=aim.pipeline,
        ):
            by.check(right)


def _read_body(request: PageRequest) -> Body:
    """The object that was sent; empty where nothing was. Raises WrongUse, for a text in it or in the address too."""
    try:
        body = json.loads(request.body or b"{}")
    except RequestDataTooBig as error:
        raise WrongUse("More was sent than is taken at once.") from error
    except (ValueError, RecursionError) as error:
        raise WrongUse("What was sent is not JSON.") from error
    if not isinstance(body, dict):
        raise WrongUse("Send one JSON object.")
    if wrong := texts.text_problem([body, request.path, dict(request.GET.lists())]):
        raise WrongUse(wrong)
    return body


def _status_of(refusal: RepriseError) -> int:
    if refusal.code == "too_many":
        return 429
    return next((code for kind, code in STATUS.items() if isinstance(refusal, kind)), 409)


def _problem_response(
    status: int,
    code: str,
    says: str,
    *,
    flags: tuple[str, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> JsonResponse:
    content = {"code": code, "says": says, **({"flags": flags} if flags else {})}
    return JsonResponse({"error": content}, status=status, headers=headers)
