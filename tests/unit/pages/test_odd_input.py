"""What people and programs may send by mistake or on purpose is answered with a sentence, never with a fault."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction

from recovery.audit import listing
from recovery.audit.actions import append_entry
from recovery.models import Token
from recovery.numbers import whole
from recovery.people.roles import SYSTEM
from recovery.workflow import broker
from tests import factories as f
from tests.factories import positions
from tests.pages import refusal, shown
from tests.unit.pages.reading import plain, signed_in

pytestmark = pytest.mark.django_db

LONG = "9" * 5000
RULE = {
    "version": "0", "votes": "1", "expiry_hours": "24", "waiting_minutes": "0", "break_glass_minutes": "60",
    "strategies": ["continue"],
}  # fmt: skip
CHANNEL = {"name": "m", "kind": "webhook", "environments": ["staging"], "events": ["recovery.succeeded"]}


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("12", 12), ("007", 7), ("9" * 18, 10**18 - 1)]
    + [(no, None) for no in ("", "²", "٣", "-1", "+1", "1_0", " 1", "1.0", "9" * 19, LONG)],
)
def test_a_whole_number_is_of_plain_digits_that_fit(text: str, number: int | None) -> None:
    assert whole(text) == number


@pytest.mark.parametrize(
    "path", ["/recoveries/²", "/recoveries/R-²", "/audit/recovery/²", "/audit/recovery/²/evidence.zip"]
)
def test_a_recovery_of_no_number_is_not_found(path: str) -> None:
    assert signed_in(f.person("auditor")).get(path).status_code == 404


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"name": "x", "days": "²"}, 422),
        ({"name": "x", "days": LONG}, 422),
        ({"name": "x", "days": "9" * 17}, 422),
        ({"name": "x", "days": "a month"}, 422),
        ({"revoke": "²"}, 404),
        ({"revoke": LONG}, 404),
        ({"end": "²"}, 302),
        ({"end": LONG}, 302),
    ],
)
def test_the_account_takes_numbers_only(sent: dict[str, str], status: int) -> None:
    answer = signed_in(f.person("responder")).post("/account", sent)
    assert answer.status_code == status
    assert not Token.objects.exists()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"act": "revoke"}, 404),
        ({"act": "revoke", "token": "²"}, 404),
        ({"act": "revoke", "token": LONG}, 404),
        ({"act": "token", "name": "x", "days": "²"}, 409),
        ({"act": "token", "name": "x", "days": LONG}, 409),
    ],
)
def test_the_page_of_a_person_takes_numbers_only(sent: dict[str, str], status: int) -> None:
    person = f.person("responder").person
    answer = signed_in(f.person("admin")).post(f"/settings/people/{person.pk}", sent)
    assert answer.status_code == status
    assert not Token.objects.exists()


@pytest.mark.parametrize("groups", ["data ²: ann", f"data {LONG}: ann", f"data {'9' * 18}: ann"])
def test_a_group_takes_a_number_of_votes_only(groups: str) -> None:
    sent = {**RULE, "groups": groups}
    assert signed_in(f.person("admin")).post("/settings/environments/staging", sent).status_code == 422


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://[::1", "The address cannot be read."),
        ("https://\u2100.com", "The address cannot be read."),
        (f"https://{'a' * 70}.com/", "is not known to the name service"),
        (f"https://{'a' * 300}/", "is not known to the name service"),
    ],
)
def test_an_address_that_no_web_has_is_refused_on_the_page(address: str, says: str) -> None:
    answer = signed_in(f.person("admin")).post("/settings/notifications/new", {**CHANNEL, "address": address})
    assert answer.status_code == 422
    assert says in plain(answer)


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.9999Z"]
)
def test_a_time_that_utc_does_not_have_is_no_position(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)
    recovery = positions.at_committed()
    client, page = signed_in(f.person("responder")), f"/recoveries/{recovery.pk}/positions"
    answer = client.post(page, {"act": "look", "form.0": "time", "value.0": moment})
    assert answer.status_code in (409, 422)
    assert refusal(answer) == "time_out_of_range"
    assert client.get(page).status_code == 200


@pytest.mark.parametrize(
    "query",
    ["to=9999-12-31", "to=9999-12-31T23:59-14:00", "from=0001-01-01", "from=0001-01-01T00:00%2B14:00"],
)
@pytest.mark.parametrize("path", ["/audit", "/audit/export"])
def test_a_period_up_to_the_end_of_all_dates_holds_every_entry(path: str, query: str) -> None:
    with transaction.atomic():
        append_entry(
            action="recovery.open",
            outcome="done",
            by=SYSTEM,
            target_kind="flow",
            target="the-flow",
            says="Opened.",
        )
    answer = signed_in(f.person("auditor")).get(f"{path}?{query}")
    assert answer.status_code == 200
    assert "the-flow" in (b"".join(answer.streaming_content).decode() if answer.streaming else plain(answer))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("0001-01-01T00:00+14:00", datetime.min.replace(tzinfo=UTC)),
        ("9999-12-31T23:59-14:00", datetime.max.replace(tzinfo=UTC)),
        ("2026-11-22T05:00+02:00", datetime(2026, 11, 22, 3, tzinfo=UTC)),
        ("soon", None),
    ],
)
def test_a_moment_is_one_of_utc(text: str, at: Any) -> None:
    assert listing.parse_moment(text) == at


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [
        ("get", "/audit?q=%00", {}),
        ("get", "/audit?%00=1", {}),
        ("get", "/settings/environments/%00", {}),
        ("get", "/sign-in?next=%00", {}),
        ("post", "/sign-in", {"name": "a\0b", "password": "x"}),
        ("post", "/settings/people", {"name": "a\0b", "role": "viewer"}),
        ("post", "/settings/environments/staging", {**RULE, "freezes": "Fri 18:00 - Mon 08:00 UTC \0"}),
        ("post", "/account", {"name": "x\0", "days": "30"}),
    ],
)
def test_a_nul_is_refused_everywhere_before_a_page_sees_it(
    method: str, path: str, sent: dict[str, Any]
) -> None:
    answer = getattr(signed_in(f.person("admin")), method)(path, sent)
    assert answer.status_code == 400
    assert shown(answer).codes == ["bad-text"]
    assert "NUL" in plain(answer)
    assert "Nothing was done." in plain(answer)
    assert answer["Content-Security-Policy"]
