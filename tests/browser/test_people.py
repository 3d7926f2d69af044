"""Second factors, passkeys, invitations and a confirmed session, as people do them in a browser under the policy."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Gallery, shoot
from tests.browser.objects import SignIn
from tests.browser.test_pages import serious
from tests.factories import PASSWORD
from tests.unit.pages.test_second_factor import code_of

pytestmark = pytest.mark.browser
ORDINARY = re.compile(r"status of (422|404|409|403)")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, which may say nothing wrong: neither script errors nor anything against the policy."""
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 1440, "height": 900})
    wrong: list[str] = []
    page = context.new_page()
    page.on(
        "console",
        lambda m: wrong.append(m.text) if m.type == "error" and not ORDINARY.search(m.text) else None,
    )
    page.on("pageerror", lambda e: wrong.append(str(e)))
    yield page
    context.close()
    assert wrong == []


def look(page: Page, name: str) -> None:
    """Keep pictures of what was reached on the way, at both widths and in both themes, and judge it."""
    found = serious(page)
    for width in (1440, 360):
        page.set_viewport_size({"width": width, "height": 900})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            shoot(page, f"{name}-{width}-{theme}")
            found += serious(page, "color-contrast")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    assert found == []


def sign_out(page: Page) -> None:
    page.locator("summary", has=page.locator(".person")).click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()


def type_in(page: Page, url: str, name: str, password: str = PASSWORD) -> None:
    page.goto(f"{url}/sign-in")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_an_authenticator_app_is_set_up_and_asked_for(page: Page, gallery: Gallery) -> None:
    SignIn(page, gallery.url).as_("approver", PASSWORD)
    page.goto(gallery.url + "/account")
    page.get_by_role("link", name="Set up authenticator app").click()
    assert page.locator("img.qr").evaluate("e => e.naturalWidth") > 0, "the policy lets the QR code be seen"
    secret = page.locator("#secret").inner_text().replace(" ", "")
    page.get_by_label("6-digit code that the app shows now").fill("12")
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_role("alert")).to_contain_text("not the one of this moment")
    assert page.locator("#secret").inner_text().replace(" ", "") == secret
    page.get_by_label("6-digit code that the app shows now").fill(code_of(secret))
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_role("heading", name="10 codes. They are shown only once.")).to_be_visible()
    look(page, "recovery-codes")
    code = page.locator(".codes li").first.inner_text()
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_text("10 unused")).to_be_visible()
    look(page, "account-with-app")
    sign_out(page)

    type_in(page, gallery.url, "approver")
    expect(page.get_by_role("heading", name="Second step")).to_be_visible()
    look(page, "second-step")
    page.get_by_label("6-digit code, or a recovery code").fill("000000")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The code or passkey is wrong.")
    page.get_by_label("6-digit code, or a recovery code").fill(code_of(secret, 1))
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Flows", level=1)).to_be_visible()
    sign_out(page)

    type_in(page, gallery.url, "approver")
    page.get_by_label("6-digit code, or a recovery code").fill(code)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Flows", level=1)).to_be_visible()
    page.goto(gallery.url + "/account")
    page.get_by_role("button", name="Remove authenticator app").click()
    expect(page.get_by_role("link", name="Set up authenticator app")).to_be_visible()


def test_a_passkey_signs_in_and_confirms_by_itself(page: Page, gallery: Gallery) -> None:
    """With Chromium's virtual authenticator; at localhost, since browsers know no passkeys for an IP address."""
    url = f"http://localhost:{urlsplit(gallery.url).port}"
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
               "isUserVerified": True, "automaticPresenceSimulation": True}  # fmt: skip
    key = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})["authenticatorId"]
    SignIn(page, url).as_("viewer", PASSWORD)
    page.goto(url + "/account")
    page.get_by_role("link", name="Set up a passkey").click()
    page.get_by_label("Name", exact=True).fill("laptop")
    look(page, "passkey")
    page.get_by_role("button", name="Set up passkey").click()
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_role("rowheader", name="Passkey laptop")).to_be_visible()
    sign_out(page)

    look(page, "sign-in-passkey")
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="Flows", level=1)).to_be_visible()
    page.goto(url + "/reauthenticate?next=/recoveries")
    look(page, "reauthenticate-passkey")
    page.get_by_role("button", name="Confirm with passkey").click()
    expect(page.get_by_role("heading", name="Recoveries", level=1)).to_be_visible()
    sign_out(page)

    type_in(page, url, "viewer")
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="Flows", level=1)).to_be_visible()
    sign_out(page)

    devtools.send("WebAuthn.setUserVerified", {"authenticatorId": key, "isUserVerified": False})
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_text("No passkey was given. Try again, or take another way.")).to_be_visible()

    devtools.send("WebAuthn.setUserVerified", {"authenticatorId": key, "isUserVerified": True})
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="Flows", level=1)).to_be_visible()
    page.goto(url + "/account")
    page.get_by_role("button", name="Remove passkey laptop").click()
    expect(page.get_by_role("rowheader", name="Passkey", exact=True)).to_be_visible()
    sign_out(page)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("alert")).to_contain_text("This passkey is not known here.")


def test_somebody_is_invited_sets_a_password_once_and_is_switched_off(
    page: Page, gallery: Gallery, browser: Browser
) -> None:
    SignIn(page, gallery.url).as_("admin", PASSWORD)
    page.goto(gallery.url + "/settings/people")
    page.get_by_label("Name", exact=True).fill("grace")
    page.get_by_label("Role", exact=True).select_option("responder")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("heading", name="grace", exact=True)).to_be_visible()
    page.get_by_label("Role in production").select_option("viewer")
    page.get_by_role("button", name="Save roles").click()
    page.get_by_role("button", name="Make an invitation link").click()
    link = page.locator("#link").inner_text()
    look(page, "person-invited")

    theirs = browser.new_context()
    hers = theirs.new_page()
    hers.goto(link)
    expect(hers.get_by_role("heading", name="Welcome, grace")).to_be_visible()
    hers.get_by_label("New password").fill("four calm words here")
    hers.get_by_label("The same again").fill("four calm words here")
    hers.get_by_role("button", name="Set password").click()
    type_in(hers, gallery.url, "grace", "four calm words here")
    expect(hers.get_by_role("heading", name="Flows", level=1)).to_be_visible()
    hers.goto(link)
    expect(hers.get_by_role("alert")).to_contain_text("This invitation is not good, or no longer.")

    page.get_by_role("button", name="Switch grace off").click()
    expect(page.get_by_role("button", name="Switch grace on")).to_be_visible()
    hers.goto(gallery.url + "/")
    expect(hers.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    theirs.close()


def test_sessions_are_listed_and_ended(page: Page, gallery: Gallery, browser: Browser) -> None:
    elsewhere = browser.new_context(
        user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    )
    other = elsewhere.new_page()
    SignIn(other, gallery.url).as_("responder", PASSWORD)
    SignIn(page, gallery.url).as_("responder", PASSWORD)
    page.goto(gallery.url + "/account")
    expect(page.get_by_role("row").filter(has_text="Firefox on Linux")).to_be_visible()
    look(page, "account-sessions")
    page.get_by_role("button", name="End the session of Firefox on Linux").click()
    expect(page.get_by_role("row").filter(has_text="Firefox on Linux")).to_have_count(0)
    other.goto(gallery.url + "/")
    expect(other.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    elsewhere.close()
