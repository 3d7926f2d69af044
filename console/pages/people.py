"""Settings > People: who may be here, with what role where. For admins, with a fresh sign-in."""

from typing import Any

from allauth.account.adapter import get_adapter as get_account_adapter
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.forms.token import read_days
from console.middleware import PageRequest
from console.pages.base import page, refusal_of, render_page
from console.pages.freshness import unless_fresh
from console.signing import factors, sessions
from recovery.errors import NotFound, RepriseError
from recovery.models import Person, Token
from recovery.numbers import whole
from recovery.people import actions, limits
from recovery.people.roles import ENVIRONMENTS, RIGHTS, Actor, AnonymousActor, Grant, Right, Role

GIVEN = [r for r in Role if r is not Role.SYSTEM]
NOBODYS = {Right.PROVISION}
"""Rights of the system alone, which no person has."""


@page(Right.MANAGE, methods=("GET", "POST"))
def list_people(request: PageRequest, by: Actor) -> HttpResponse:
    """Everyone; POST adds someone, and leads to their page."""
    refusal: RepriseError | None = None
    if request.method == "POST":
        if asked := unless_fresh(request):
            return asked
        made: list[Person] = []
        service = request.POST.get("kind") == "service"
        refusal = refusal_of(
            lambda: made.append(
                actions.create_person(
                    name=request.POST.get("name", "").strip(), email=request.POST.get("email", ""),
                    role=request.POST.get("role", ""), password=None, service=service, invited=not service, by=by,
                )
            )
        )  # fmt: skip
        if made:
            return redirect("person", made[0].pk)
    people = Person.objects.select_related("user").prefetch_related("roles_in").order_by("user__username")
    good = Q(user__tokens__revoked_at=None, user__tokens__expires_at__gt=timezone.now())
    context = {
        "section": "settings",
        "people": people.annotate(tokens=Count("user__tokens", filter=good)),
        "factors": set(
            Authenticator.objects.exclude(type="recovery_codes").values_list("user_id", flat=True)
        ),
        "without": User.objects.filter(person=None).order_by("username"),
        "roles": [r.value for r in GIVEN],
        "rights": [(r.value, [(x.value, r in RIGHTS[x]) for x in GIVEN]) for r in Right if r not in NOBODYS],
        "typed": request.POST,
    }
    return render_page(
        request, "settings/people.html", context, refusal=refusal, status=422 if refusal else None
    )


@page(Right.MANAGE, methods=("GET", "POST"))
def show_person(request: PageRequest, by: Actor, person_id: int) -> HttpResponse:
    """One person. POST does what its button `act` names."""
    person = Person.objects.select_related("user").filter(pk=person_id).first()
    if person is None:
        raise NotFound("There is no such person. See the list of people.")
    refusal: RepriseError | None = None
    shown: dict[str, str] = {}
    if request.method == "POST":
        if asked := unless_fresh(request):
            return asked
        refusal = refusal_of(lambda: shown.update(_act_on_person(request, person, by)))
        if refusal is None and not shown:
            return redirect("person", person_id)
    return render_page(request, "settings/person.html", {**_person_context(person), **shown}, refusal=refusal)


def _person_context(person: Person) -> dict[str, Any]:
    roles_by_place = {r.environment: r for r in person.roles_in.all()}
    return {
        "section": "settings",
        "person": person,
        "roles": [r.value for r in GIVEN],
        "places": [(e, roles_by_place.get(e)) for e in ENVIRONMENTS],
        "environments": ENVIRONMENTS,
        "rights": [r for r in Right if r not in NOBODYS and r is not Right.MANAGE],
        "tokens": Token.objects.filter(user=person.user).order_by("revoked_at", "-created_at"),
        "invitation": person.invitations.order_by("-pk").first(),
        "factors": factors.list_factors(person.user),
        "has_password": person.user.has_usable_password(),
    }


def _act_on_person(request: PageRequest, person: Person, by: Actor) -> dict[str, str]:
    """Do it; what has to be shown once (a link, a token), or nothing. Raises RepriseError."""
    post, act = request.POST, request.POST.get("act", "")
    if act == "roles":
        actions.change_person(
            person=person,
            role=post.get("role", ""),
            reset="may_reset" in post,
            elsewhere=_read_environment_roles(post),
            by=by,
        )
    elif act in ("on", "off"):
        actions.switch_account(person=person, on=act == "on", by=by)
    elif act == "invite":
        text = actions.invite_person(person=person, by=by)
        return {"link": request.build_absolute_uri(reverse("invitation", args=[text]))}
    elif act == "token":
        return {"made": _create_token(post, person, by)}
    elif act == "revoke":
        number = whole(post.get("token", ""))
        token = Token.objects.filter(user=person.user, pk=number).first() if number is not None else None
        if token is None:
            raise NotFound(f"{person.user.get_username()} has no such access token.")
        actions.revoke_token(token=token, by=by)
    elif act == "sessions":
        sessions.end_sessions(request, person.user, by)
    elif act == "factors":
        factors.remove_all(person.user, by)
    return {}


def _read_environment_roles(post: Any) -> dict[str, Grant]:
    """The roles by environment that were chosen; an empty choice is the default role."""
    chosen = {e: post.get(f"role-{e}", "") for e in ENVIRONMENTS}
    known = {r.value for r in GIVEN}
    return {e: Grant(Role(r), f"may_reset-{e}" in post) for e, r in chosen.items() if r in known}


def _create_token(post: Any, person: Person, by: Actor) -> str:
    rights = [Right[name] for name in post.getlist("right") if name in Right.__members__]
    return actions.create_token(
        owner=person.user, name=post.get("name", "").strip(), days=read_days(post), rights=rights,
        environments=post.getlist("environment") or None, by=by,
    )  # fmt: skip


@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def accept_invitation(request: PageRequest, secret: str) -> HttpResponse:
    """The page behind an invitation: a password of one's own, once. Needs no account, and makes none."""
    stranger = AnonymousActor(via="page", request_id=request.request_id)
    source = get_account_adapter().get_client_ip(request)
    context: dict[str, Any] = {}
    refusal: RepriseError | None = None
    try:
        limits.check_limit("invitation", source)
        context["name"] = actions.invitation_of(secret).person.user.get_username()
        if request.method == "POST":
            new, again = request.POST.get("password", ""), request.POST.get("again", "")
            if new and new == again:
                actions.use_invitation(text=secret, password=new, by=stranger)
                return redirect("sign-in")
            context["problem"] = "The two passwords are not the same. Type the new one twice."
            context["code"] = "passwords-differ"
    except NotFound as missing:
        limits.count_try("invitation", source)
        refusal = missing
    except RepriseError as problem:
        context |= {"problem": problem.sentence, "code": problem.code}
    status = 404 if refusal else 422 if context.get("problem") else None
    return render_page(request, "account/invitation.html", context, refusal=refusal, status=status)
