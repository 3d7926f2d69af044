"""The whole incident in a browser, as a responder does it at 3 a.m.; then the table itself is read."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import shoot
from tests.browser.objects import Inventory, SignIn
from tests.integration.test_first_recovery import (
    checkpoint,
    held,
    newest_customers,
    shown_customers,
    tree,
    wanted,
)
from tests.integration.test_kafka_to_delta import closed, watermark, written
from tests.stack import Stack

pytestmark = [pytest.mark.spark, pytest.mark.browser]


@contextmanager
def opened(browser: Browser) -> Iterator[Page]:
    """A page in a context of its own, for one person; it must have logged no error when it is closed."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    errors: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert not errors, errors


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with opened(browser) as page:
        yield page


def signed_in(page: Page, stack: Stack, name: str = "responder") -> Inventory:
    demo = stack.demo
    return SignIn(page, demo["console_url"]).as_(name, demo["users"][name]["password"])


def test_a_responder_walks_from_the_alert_to_proof_and_a_viewer_only_looks(
    page: Page, stack: Stack, browser: Browser
) -> None:
    incident = stack.incident("customers", schema="crm")
    before = tree(checkpoint(stack, incident))
    flow = signed_in(page, stack).open().wait_for_failed("customers_incremental_flow")
    with opened(browser) as viewer:
        signed_in(viewer, stack, "viewer").open().wait_for_failed("customers_incremental_flow").flow(
            "customers_incremental_flow"
        )
        expect(viewer.get_by_role("button", name="Diagnose and recover")).to_be_disabled()
    shoot(page, "inventory")
    overview = flow.flow("customers_incremental_flow")
    expect(page.get_by_text("no longer has the dropDuplicates step").first).to_be_visible()
    shoot(page, "flow")
    shoot(page, "readme", whole=False)  # docs/images/flow.png
    below = overview.count_below().rows_below(incident.table.replace("_changes", ""))
    should = len(newest_customers(stack, incident))
    assert below == (("now-known", "0"), ("should-known", str(should))), "the failing update emptied the view"
    shoot(page, "flow-counted")
    wizard = overview.recover()
    expect(page.get_by_text("Do not reset to an empty checkpoint").first).to_be_visible()
    shoot(page, "diagnose")
    wizard.stop()
    wizard.count_rows()
    assert "0" in wizard.cell("Rows lost", "continue")
    assert "about 8 rows" in wizard.cell("To read", "continue")
    assert "8 rows lost" in wizard.why_not("empty")
    assert page.locator("#st-empty").is_disabled()
    shoot(page, "offset")
    wizard.choose("continue", key="customer_id, sequence_num")
    wizard.edit(
        "customers.py", incident.failing_code + "\n# dropDuplicates was redundant: the feed has keys\n"
    )
    wizard.validate()
    shoot(page, "patch")
    wizard.keep_code()
    wizard.seal()
    shoot(page, "review")
    wizard.run()
    shoot(page, "run")
    wizard.wait_until_run_ended()
    wizard.proven()
    shoot(page, "verify")
    assert held(stack, incident) == wanted(incident)
    newest = newest_customers(stack, incident)
    assert shown_customers(stack, incident) == newest
    assert len(newest) > 0
    assert tree(checkpoint(stack, incident)) == before, "the old version was touched"
    assert stack.client.export(incident.source).decode().endswith("the feed has keys\n")


def test_a_responder_goes_back_in_a_topic_and_the_open_minutes_are_counted_anew(
    page: Page, stack: Stack
) -> None:
    incident = stack.clicks("clicks_by_minute", schema="web", topic="clicks")
    read, every = incident.arrivals.processed(), incident.arrivals.all()
    before = closed(read, watermark(read), "page")
    inventory = signed_in(page, stack).open().wait_for_failed("clicks_by_minute")
    wizard = inventory.flow("clicks_by_minute").recover().stop().count_rows()
    assert "Blocked" in wizard.cell("Can it run?", "continue")
    assert "Needs a start" in wizard.cell("Can it run?", "reread")
    wizard.start_offsets("rewind").look(0, "earliest")
    expect(page.get_by_text(f"Source 0: {len(read)} rows read a second time").first).to_be_visible()
    page.set_viewport_size({"width": 1440, "height": 1000})
    shoot(page, "start-offset", whole=False)  # docs/images/start-offset.png
    wizard.accept_and_choose().keep_code().seal()
    shoot(page, "review-rewind")
    wizard.run().wait_until_run_ended().proven()
    shoot(page, "verify-rewind")
    later = closed(every, watermark(every), "page", "country") - closed(
        every, watermark(read), "page", "country"
    )
    assert written(stack, incident) == before + later


def test_a_second_person_goes_on_by_the_address(page: Page, stack: Stack, browser: Browser) -> None:
    incident = stack.incident("takeover")
    wizard = signed_in(page, stack).open().wait_for_failed(incident.flow.rsplit(".", 1)[1])
    wizard.flow(incident.flow.rsplit(".", 1)[1]).recover().stop().count_rows()
    address = page.url
    other = browser.new_context()
    try:
        theirs = other.new_page()
        signed_in(theirs, stack, "admin")
        theirs.goto(address)
        expect(theirs.get_by_role("region", name="Strategies compared")).to_be_visible()
        theirs.goto(address.replace("/offset", "/diagnose"))
        expect(theirs.get_by_role("heading", name="Diagnose", level=1)).to_be_visible()
    finally:
        other.close()
