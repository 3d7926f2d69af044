"""Every page in a real browser: readable for everybody, at both themes and at a phone's width."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, expect

from tests.browser.conftest import Gallery, shoot
from tests.browser.objects import SignIn
from tests.factories import PASSWORD
from tests.unit.diagnosis.public_texts import TEXTS

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Look:
    """One way to look at a page. `theme` None: only for sideways scroll. `rules` of axe-core; (): all."""

    width: int
    theme: Literal["light", "dark"] | None
    rules: tuple[str, ...] = ()


COLOURS = ("color-contrast",)  # the second theme of a width differs in its colours and in nothing else
BETWEEN = Look(720, None)
EVERY_LOOK = (
    Look(1440, "light"),
    Look(1440, "dark", COLOURS),
    BETWEEN,
    Look(360, "light"),
    Look(360, "dark", COLOURS),
)
# Each width and each theme once, with every rule; the proof `pages` has the other two.
DAILY_LOOKS = (Look(1440, "light"), BETWEEN, Look(360, "dark"))
# Outermost elements that reach beyond the window and are not inside a box that scrolls by itself
WIDER = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const boxed = (e) => { for (let p = e.parentElement; p; p = p.parentElement)
    if (getComputedStyle(p).overflowX !== "visible") return true; return false; };
  return [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > room + 1
    && !boxed(e)).slice(0, 5).map((e) => e.outerHTML.slice(0, 120));
}"""
NAMES = (
    # first, while the session is fresh: they ask for a sign-in of the last ten minutes
    "password", "totp", "passkey-away", "people", "person", "person-service", "reauthenticate", "invitation",
    "forgotten",
    "invitation-used",
    "inventory", "inventory-all", "inventory-at-risk", "inventory-none-fits",
    "flow", "flow-production", "flow-shared-id", "flow-batches", "flow-below", "flow-below-uncounted",
    "flow-empty", "review-below", "verify-below",
    "checkpoint-away",
    "flow-unread", "events-away", "code-away", "checkpoint", "checkpoint-batch", "checkpoint-beside",
    "checkpoint-no-batch", "checkpoint-long", "checkpoint-old", "checkpoint-files", "checkpoint-kafka",
    "checkpoint-damaged", "events", "code", "patch", "patch-revert",
    "flow-recoveries", "diagnose", "stop-before", "stop-done", "offset-none", "offset-working",
    "offset-failed", "offset", "offset-recommended", "positions-none", "positions-working", "positions-failed",
    "positions",
    "positions-time", "positions-chosen", "positions-part", "positions-many", "positions-sources",
    "patch-away", "review-none", "review", "review-accept", "review-accepted", "review-revert", "confirm", "void",
    "run", "run-unknown", "run-failed", "run-paused", "rollback", "cancel", "skip", "skip-never", "owner",
    "owner-take", "unproven", "verify", "verify-failed", "verify-missing", "verify-repeats",
    "verify-repeated", "rolled-back",
    "review-ask", "review-waiting", "review-approved", "review-rejected", "review-expired", "confirm-production",
    "break-glass", "break-glass-none", "run-glass", "approval", "approval-revert", "approval-approved",
    "approval-rejected", "approval-void", "approval-expired", "approvals", "environments",
    "environment-production", "environment-staging",
    "cancelled", "recoveries", "audit", "audit-entry", "audit-chain", "audit-review", "audit-signed-off",
    "audit-to-review", "audit-story", "audit-filtered", "audit-none-fits", "settings", "notifications",
    "channel-new", "channel", "components", "account",
    "workspace-new", "workspace", "search", "search-nothing", "report", "report-history", "statement", "error-text",
    "stream-begin", "stream-none", "stream-read", "stream-said", "flow-adopted", "pipeline-adopted", "run-by-hand",
    "run-by-hand-seen", "run-by-hand-stranger", "run-by-hand-stranger-runs", "verify-stream", "report-stream",
    "flow-stream",
    "flow-accepted", "flow-differs", "verify-accepted", "verify-differs", "pipeline-doubted", "search-doubted",
    "inventory-doubted",
    "flow-read-again",
    "flow-checkpoint-gone",
    "checkpoint-gone",
    "inventory-read-again",
    "review-join", "review-joint", "confirm-joint", "glass-joint", "approval-joint", "run-joint", "rollback-joint",
    "cancel-joint", "pipeline-broken", "flow-broken", "together-open", "together-asked", "together-decide",
    "together-sealed", "review-emptying", "confirm-emptying",
    "missing",
)  # fmt: skip
# One page of each kind.
EVERY_DAY = (
    "inventory", "flow", "diagnose", "offset", "review", "run", "verify", "verify-failed", "approval", "audit",
    "components",
)  # fmt: skip
# What the browser's console says of a page that answers so on purpose.
FAILED = "Failed to load resource: the server responded with a status of"
EXPECTED = {
    "missing": f"{FAILED} 404 (Not Found)",
    "stream-none": f"{FAILED} 422 (Unprocessable Entity)",
    "checkpoint-no-batch": f"{FAILED} 404 (Not Found)",
    "invitation-used": f"{FAILED} 404 (Not Found)",
    "passkey-away": f"{FAILED} 409 (Conflict)",
}


def serious(page: Page, *rules: str) -> list[str]:
    """Violations of axe-core that keep somebody from reading or using the page; of these rules, or of all."""
    # without this, axe describes every node of the page that it found nothing wrong with
    options: dict[str, Any] = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = Axe().run(page, options=options)
    return [
        f"{v['id']}: {n['html'][:160]}"
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
        for n in v["nodes"]
    ]


def test_every_situation_is_looked_at(gallery: Gallery) -> None:
    assert set(gallery.addresses) == {*NAMES, "denied"}


@pytest.mark.parametrize("name", NAMES)
def test_a_page_can_be_read_in_both_themes_and_at_every_width(
    signed_in: Page, gallery: Gallery, name: str
) -> None:
    assert list_problems(signed_in, gallery, name, EVERY_LOOK) == []


@pytest.mark.parametrize("name", EVERY_DAY)
def test_a_page_of_each_kind_can_be_read_wide_in_light_and_narrow_in_dark(
    signed_in: Page, gallery: Gallery, name: str
) -> None:
    assert list_problems(signed_in, gallery, name, DAILY_LOOKS) == []


def list_problems(page: Page, gallery: Gallery, name: str, looks: Sequence[Look]) -> list[str]:
    """What keeps somebody from reading or using a situation, and what the browser's console says of it."""
    problems: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            problems.append(message.text)

    page.on("console", note)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(gallery.at(name))
    problems += list_unreadable(page, name, looks)
    page.remove_listener("console", note)
    return [problem for problem in problems if problem != EXPECTED.get(name)]


def list_unreadable(page: Page, name: str, looks: Sequence[Look]) -> list[str]:
    """What keeps somebody from reading or using the page as it is now; one load serves every look."""
    problems = []
    for look in looks:
        page.set_viewport_size({"width": look.width, "height": 900})
        if look.theme:
            page.emulate_media(color_scheme=look.theme)
            shoot(page, f"{name}-{look.width}-{look.theme}")
            problems += serious(page, *look.rules)
        problems += [f"at {look.width} px: {who} is wider than the window" for who in page.evaluate(WIDER)]
    return problems


def test_a_pasted_error_text_is_diagnosed_and_can_be_read_in_both_themes_and_at_every_width(
    signed_in: Page, gallery: Gallery
) -> None:
    signed_in.goto(gallery.at("error-text"))
    signed_in.get_by_label("Error text").fill(TEXTS["a step that was taken out"].text)
    signed_in.get_by_label("Checkpoint, path or URL").fill("/etc/nothing-is-read-there")
    signed_in.get_by_role("button", name="Diagnose").click()

    expect(signed_in.locator("[data-code=diagnosis]")).to_be_visible()
    assert list_unreadable(signed_in, "error-text-diagnosed", EVERY_LOOK) == []


def test_what_is_folded_in_a_report_is_on_its_print(signed_in: Page, gallery: Gallery) -> None:
    signed_in.goto(gallery.at("report"))
    folded = signed_in.locator("main details:not([open])")
    assert folded.count()
    signed_in.pdf(path=None)
    assert folded.count() == 0


def test_an_event_log_is_read_as_soon_as_it_is_named_and_what_is_typed_stays(
    signed_in: Page, gallery: Gallery
) -> None:
    signed_in.set_viewport_size({"width": 1440, "height": 900})
    signed_in.goto(gallery.at("stream-read"))
    log = signed_in.locator("#is-event-log")
    expect(log).to_contain_text("Not yet")
    signed_in.get_by_label("Owner").fill("Team shop-core")
    signed_in.get_by_label("Event log").fill("/nowhere/at/all")
    signed_in.get_by_label("Sink").focus()

    expect(log).to_contain_text("Not readable")
    expect(signed_in.locator("#answered")).to_have_attribute("data-value", "1")
    expect(signed_in.get_by_label("Sink")).to_be_focused()
    expect(signed_in.get_by_label("Owner")).to_have_value("Team shop-core")
    shoot(signed_in, "stream-log-named-1440")
    assert serious(signed_in) == []


def test_the_sign_in_can_be_read_and_keeps_the_name_but_not_the_password(
    page: Page, gallery: Gallery
) -> None:
    page.goto(gallery.url + "/sign-in")
    page.get_by_label("Name", exact=True).fill("responder")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("alert")).to_contain_text("Name or password is wrong.")
    expect(page.get_by_label("Name", exact=True)).to_have_value("responder")
    expect(page.get_by_label("Password")).to_have_value("")
    assert serious(page) == []


def test_a_slash_leads_to_the_search(signed_in: Page, gallery: Gallery) -> None:
    signed_in.set_viewport_size({"width": 1440, "height": 900})
    signed_in.goto(gallery.at("inventory"))
    signed_in.keyboard.press("/")
    signed_in.keyboard.type("orders")
    signed_in.keyboard.press("Enter")

    expect(signed_in.get_by_label("Search", exact=True)).to_have_value("orders")
    assert "/search?q=orders" in signed_in.url


def test_the_chosen_strategy_shows_its_own_positions(signed_in: Page, gallery: Gallery) -> None:
    signed_in.goto(gallery.at("offset"))
    signed_in.locator("#st-continue").check()
    expect(signed_in.get_by_role("heading", name="Positions with continue")).to_be_visible()

    signed_in.locator("#st-full-refresh").check()

    expect(signed_in.get_by_role("heading", name="Positions with full-refresh")).to_be_visible()
    expect(signed_in.get_by_role("heading", name="Positions with continue")).to_be_hidden()
    expect(signed_in.locator("#st-empty")).to_be_disabled()


def test_pages_work_without_javascript(browser: object, gallery: Gallery) -> None:
    context = browser.new_context(java_script_enabled=False)  # type: ignore[attr-defined]
    page = context.new_page()
    SignIn(page, gallery.url).as_("responder", PASSWORD)
    page.goto(gallery.at("run"))

    expect(page.get_by_role("link", name="Reload")).to_be_visible()
    expect(page.get_by_role("button", name="Hand-over link")).to_be_hidden()
    page.goto(gallery.at("review"))
    expect(page.get_by_role("button", name="Run recovery of 1 flow")).to_be_enabled()
    context.close()


def test_a_live_page_asks_again_and_says_when_the_console_is_silent(
    signed_in: Page, gallery: Gallery
) -> None:
    signed_in.goto(gallery.at("run"))
    with signed_in.expect_response(lambda r: "part=live" in r.url) as asked:
        pass
    assert asked.value.status in (200, 204)

    signed_in.route("**/*part=live*", lambda route: route.abort())
    expect(signed_in.get_by_text("The console does not answer.")).to_be_visible()
    signed_in.unroute("**/*part=live*")
    expect(signed_in.get_by_text("The console does not answer.")).to_be_hidden()


def test_an_age_counts_up_in_a_page_that_nobody_reloads(signed_in: Page, gallery: Gallery) -> None:
    signed_in.clock.install()
    signed_in.goto(gallery.at("flow"))
    signed_in.route("**/*", lambda route: route.abort())  # no answer of the console may bring the new text
    age = signed_in.locator("time[data-ago], time[data-elapsed]").first
    came = age.inner_text()

    signed_in.clock.fast_forward("50:00:00")

    expect(age).to_contain_text("2 d")
    assert "2 d" not in came


def test_a_viewer_reads_why_a_button_is_disabled(browser: object, gallery: Gallery) -> None:
    context = browser.new_context()  # type: ignore[attr-defined]
    page = context.new_page()
    SignIn(page, gallery.url).as_("viewer", PASSWORD)
    page.goto(gallery.at("review"))

    button = page.get_by_role("button", name="Run recovery of 1 flow")
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(
        "Your role, viewer, may not open, plan and run recoveries. Ask a responder or an admin."
    )
    context.close()
