"""The words of why nobody is let in, and of why a message did not arrive, once each."""

import ssl
from typing import Any

import pytest
import requests
from django.core.cache import cache
from django.test import Client, RequestFactory, override_settings

from console import texts
from console.forms.session import NOTHING_GIVEN, SignInForm
from console.pages import reauthenticate, session
from console.signing import company
from console.signing.problems import OLD_PROOF, SignInProblem
from recovery.notify import posting
from recovery.people import limits
from tests import factories as f
from tests.pages import shown

WORDS: tuple[tuple[SignInProblem, str, str], ...] = (
    (
        session.TOO_MANY,
        "too-many-from-here",
        "Too many refused tries came from this address. Wait a minute, then try again.",
    ),
    (
        session.WRONG_CODE,
        "wrong-code",
        "The code or passkey is wrong. Try the next code, or use a recovery code.",
    ),
    (
        session.LOST_KEY,
        "lost-key",
        "Your second factor was set up under a secret key that this console no longer has, so no code can be checked. "
        "Ask an admin to take it away, or the operator to give the former key (REPRISE_SECRET_KEY_FALLBACKS).",
    ),
    (session.WRONG_PASSKEY, "wrong-passkey", "This passkey is not known here. Sign in with your password."),
    (
        company.NOT_INVITED,
        "not-invited",
        "This company account has no person here. Ask an admin to invite its mail address.",
    ),
    (
        company.NOT_FINISHED,
        "not-finished",
        "The company sign-in was not finished. Try again, or use your password.",
    ),
    (
        OLD_PROOF,
        "old-proof",
        "Not confirmed: the company account answered from an earlier sign-in without asking you. Sign out there, then "
        "try again.",
    ),
    (
        reauthenticate.TOO_MANY,
        "too-many-to-confirm",
        "Too many tries to confirm it were refused. Wait a minute, then try again.",
    ),
    (reauthenticate.WRONG, "wrong-proof", "Password or code is wrong. Nothing was done."),
    (reauthenticate.WRONG_PASSKEY, "not-your-passkey", "This passkey is not one of yours. Nothing was done."),
    (NOTHING_GIVEN, "nothing-given", "Give your name and your password."),
)


@pytest.mark.parametrize(
    ("problem", "code", "words"), WORDS, ids=lambda of: of if isinstance(of, str) else ""
)
def test_a_sign_in_is_refused_in_these_words(problem: SignInProblem, code: str, words: str) -> None:
    assert (problem.code, str(problem)) == (code, words)


def form(name: str, password: str) -> SignInForm:
    return SignInForm({"name": name, "password": password}, request=RequestFactory().post("/sign-in"))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("wrong-password", "Name or password is wrong. Check both, or ask an admin."),
        (
            "too-many-for-name",
            "Too many tries for this name. Wait 5 minutes, or ask an admin for a new password.",
        ),
        ("no-role", "This account has no role here. Ask an admin to give it one."),
        ("nothing-given", "Give your name and your password."),
    ],
)
def test_a_name_and_a_password_are_refused_in_these_words(code: str, words: str) -> None:
    user = f.person("viewer")
    if code == "no-role":
        user.person.delete()  # type: ignore[attr-defined]
    if code == "too-many-for-name":
        for _ in range(limits.LIMITS["sign-in"][0]):
            limits.count_try("sign-in", "viewer")
    of = form("viewer", {"wrong-password": "not this one", "nothing-given": ""}.get(code, f.PASSWORD))
    assert not of.is_valid()
    assert (of.problem().code, of.problem().says) == (code, words)
    cache.clear()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            requests.exceptions.SSLError(ssl.SSLError("bad")),
            "not_trusted",
            "https://h.example/… shows a certificate that is not trusted.",
        ),
        (requests.Timeout(), "late", "https://h.example/… does not answer in time."),
        (
            requests.ConnectionError("see REPRISE_OUTBOUND_ALLOW"),
            "outbound",
            "https://h.example/… leads to an address that the console may not call (REPRISE_OUTBOUND_ALLOW).",
        ),
        (
            requests.ConnectionError("NameResolutionError"),
            "no_such_host",
            "The name of https://h.example/… is not known to the name service of the worker.",
        ),
        (
            requests.ConnectionError("refused"),
            "not_delivered",
            "https://h.example/… refuses the connection.",
        ),
    ],
)
def test_a_message_is_not_delivered_in_these_words(error: Any, code: str, words: str) -> None:
    told = posting._explain_silence("https://h.example/secret", error)
    assert (told.code, told.sentence) == (code, words)


@pytest.mark.django_db
@override_settings(EMAIL_HOST="")
def test_mail_that_is_not_configured_is_said_in_these_words() -> None:
    from recovery.notify.mailing import send_mail

    with pytest.raises(posting.NotDelivered) as told:
        send_mail(to="a@b.example", uid="u", title="t", text="x")
    words = "Mail is not configured: set REPRISE_MAIL_HOST and REPRISE_MAIL_FROM."
    assert told.value.sentence == words


@pytest.mark.django_db
def test_a_form_that_is_older_than_the_sign_in_is_refused_in_these_words() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(f.person("viewer"))
    words = "This form is older than your sign-in, so it was not sent. Go back, reload the page, and send it again."
    assert shown(client.post("/sign-out")).one("stale-form").text == words


def test_a_text_with_a_nul_is_refused_in_these_words() -> None:
    words = (
        "What was sent holds a NUL character, which no text here may hold. Take it out, then send it again."
    )
    assert texts.text_problem({"name": "a\0b"}) == words
