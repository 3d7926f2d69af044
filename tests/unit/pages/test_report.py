"""The report of a recovery: from what is stored alone, for the responder, as a page, JSON and words for the channel."""

import html
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from console.presenters import reporting as words
from console.presenters import verifying
from recovery.contracts.names import ChangeIntent
from recovery.models import Recovery
from recovery.people.roles import Actor, Role
from recovery.workflow.reporting import Times, TimeTaken, failed_at, report
from tests import factories
from tests.pages import parse
from tests.unit.people.run import token_of

pytestmark = pytest.mark.django_db
RESPONDER = Actor("responder", Role.RESPONDER, via="page")
AT = "2026-11-22T03:00:00+00:00"


def proven(**measured: Any) -> Recovery:
    """Proven now; it had failed an hour before it was opened, and the flow has long forgotten that."""
    one = factories.verified(factories.failed_flow())
    failed = one.created_at - timedelta(hours=1)
    Recovery.objects.filter(pk=one.pk).update(
        diagnosis={**one.diagnosis, "failed_at": failed.isoformat()}, measured={**one.measured, **measured}
    )
    type(one.flow).objects.filter(pk=one.flow_id).update(failing_since=None, state="ok")
    one.refresh_from_db()
    return one


def test_times_are_those_that_were_noted_and_the_way_from_failure_to_proof_is_told() -> None:
    one = proven(at=(timezone.now() + timedelta(minutes=5)).isoformat())
    found = report(one, RESPONDER)
    assert found.times.proven
    assert found.times.failed
    assert 3900 <= (found.times.seconds_to_recover or 0) <= 3960


def timed(seconds: float) -> Recovery:
    """Proven, and each step of its plan took so long."""
    one = proven()
    ended = timezone.now()
    one.steps.filter(plan__isnull=False).update(
        started_at=ended - timedelta(seconds=seconds), ended_at=ended, state="done", result={}
    )
    return one


def test_the_estimate_stands_beside_what_the_steps_took() -> None:
    one = timed(3)
    steps = one.steps.filter(plan__isnull=False).count()
    found = report(one, RESPONDER).time
    assert (found.estimated, found.took) == (7.0, 3.0 * steps)
    assert words.describe_time_taken(found).endswith(f": {3 * steps / 7:.1f} times the estimate.")


def test_a_plan_of_which_a_step_was_skipped_or_has_not_ended_has_no_time_to_compare() -> None:
    one = timed(3)
    last = one.steps.filter(plan__isnull=False).last()
    assert last is not None
    for change in ({"result": {"skipped": {"by": "ada"}}}, {"result": {}, "state": "failed"}):
        one.steps.filter(pk=last.pk).update(**change)
        found = report(one, RESPONDER).time
        assert (found.took, words.describe_time_taken(found)) == (None, "")


def test_without_an_estimate_nothing_is_compared() -> None:
    assert words.describe_time_taken(TimeTaken(None, 12.0)) == ""
    assert re.findall(r"\d+ (?:min|s)\b|\d+\.\d", words.describe_time_taken(TimeTaken(100.0, 112.0))) == [
        "1 min", "40 s", "1 min", "52 s", "1.1",
    ]  # fmt: skip


def test_a_failure_after_the_recovery_is_not_taken_for_the_one_before() -> None:
    one = factories.verified(factories.failed_flow())
    type(one.flow).objects.filter(pk=one.flow_id).update(failing_since=timezone.now() + timedelta(minutes=1))
    one.refresh_from_db()
    Recovery.objects.filter(pk=one.pk).update(diagnosis={})
    one.refresh_from_db()
    assert failed_at(one) is None
    assert report(one, RESPONDER).times.seconds_to_recover is None


def test_what_is_not_known_is_no_zero() -> None:
    found = report(proven(lost=None, doubled=7, table_rows=12345), RESPONDER)
    told = {n.name: n.value for n in words.proof_numbers(found.measured)}
    numbers = {"Lost": "not known", "Doubled": "7", "Rows in the table": "12,345"}
    assert numbers.items() <= told.items()
    text = words.closing_text(found, "https://reprise.example/")
    assert [part in text for part in ("not known lost", "7 doubled", "8 new")] == [True] * 3


@pytest.mark.parametrize("meant", [None, *ChangeIntent])
def test_whether_the_change_was_meant_is_in_the_report_and_the_channel(meant: ChangeIntent | None) -> None:
    one = proven()
    Recovery.objects.filter(pk=one.pk).update(choices={**one.choices, "meant": meant and meant.value})
    one.refresh_from_db()
    found = report(one, RESPONDER)
    assert (found.meant, found.as_dict()["meant"]) == (meant, meant)
    says = words.MEANT.get(meant, "")
    assert words.report_asks(found)[0].text == says
    cause = next(line for line in words.closing_text(found, "").splitlines() if line.startswith("Cause: "))
    assert cause == f"Cause: {found.cause} {says}".rstrip()


def test_the_closing_words_name_what_below_is_equal_and_which_columns_were_not_compared() -> None:
    equal = {"dataset": "c.s.customers", "status": "COMPLETED", "compared": True, "agrees": True}
    below = [
        equal,
        {**equal, "dataset": "c.s.sums", "left_out": ["at"]},
        {**equal, "dataset": "c.s.no", "agrees": False},
    ]
    text = words.closing_text(report(proven(downstream=below), RESPONDER), "")
    named = "customers, sums (without at)."
    assert any(line.endswith(named) for line in text.splitlines())


def test_only_numbers_are_listed_as_numbers() -> None:
    """A proof without a comparison of the whole flow once had a line `Whole: not known` among them."""
    names = {number.name for number in words.proof_numbers(proven(whole=None, changed_files=None).proof)}
    assert names == set(words.NUMBERS.values()) - {words.NUMBERS["strange"]}


def test_the_numbers_of_an_older_proof_are_those_that_it_stored() -> None:
    one = proven()
    Recovery.objects.filter(pk=one.pk).update(
        measured={"verified": True, "criteria": [], "new_rows": 8, "lost": 0}
    )
    one.refresh_from_db()
    assert [(n.name, n.value) for n in words.proof_numbers(one.proof)] == [
        ("New rows", "8"),
        ("Lost", "at least 0"),
    ]
    assert report(one, RESPONDER).as_dict()["measured"] == {"verified": True, "new_rows": 8, "lost": 0}


def test_a_measured_bound_is_no_exact_number_in_the_report_and_the_channel() -> None:
    found = report(proven(doubled=0, doubled_bound="at least", lost_bound="estimate"), RESPONDER)
    told = {n.name: n.value for n in words.proof_numbers(found.measured)}
    assert (told["Lost"], told["Doubled"]) == ("about 0", "at least 0")
    text = words.closing_text(found, "https://reprise.example/")
    assert [part in text for part in ("0 lost by", "at least 0 doubled")] == [True] * 2


@pytest.mark.parametrize(("rows", "shown"), [(0, "0"), (3, "about 3"), (None, "not known")])
def test_rows_that_were_lost_before_are_an_estimate_unless_there_are_none(
    rows: int | None, shown: str
) -> None:
    found = words.proof_numbers(proven(lost_before=rows).proof)
    assert {n.name: n.value for n in found}[words.NUMBERS["lost_before"]] == shown


def test_the_report_and_the_channel_name_who_accepted_what_was_proven_as_accepted(responder: Client) -> None:
    one = factories.repeated(factories.failed_flow())
    pages = {p: responder.get(f"/recoveries/{one.pk}/{p}").content.decode() for p in ("verify", "report")}
    for page in pages.values():
        assert parse(page).all(data_code="proven-as-accepted")[0].text.count("Twice is better") == 1
    closing = parse(pages["report"]).one("closing").text
    assert ("6 rows repeat" in closing, "responder accepted" in closing) == (True, True)
    assert closing in " ".join(html.unescape(pages["verify"]).split())


def test_the_report_and_the_channel_name_what_the_proof_found_wrong_since_before(responder: Client) -> None:
    one = proven(lost=3, lost_before=3, doubled=5, doubled_before=5)
    page = parse(responder.get(f"/recoveries/{one.pk}/report").content.decode())
    assert page.one("proven-table-differs")
    for text in (page.one("proven-table-differs").text, page.one("closing").text):
        assert ("about 3 rows" in text, "5 rows" in text) == (True, True)


def test_the_report_of_a_program_names_who_accepted_what(responder: Client) -> None:
    one = factories.repeated(factories.failed_flow())
    found = responder.get(f"/recoveries/{one.pk}/report.json").json()["accepted"]
    assert (found["loss"], found["repeats"]["by"]) == (None, "responder")


@pytest.mark.parametrize(
    ("make", "kind", "numbers"),
    [
        ("verified", "ok", []),
        ("repeated", "attention", ["6"]),
        ("not_proven", "failed", ["2", "8"]),
        ("cancelled", "stopped", []),
    ],
)
def test_the_badge_of_a_proof_names_what_it_accepted_and_what_fails(
    make: str, kind: str, numbers: list[str]
) -> None:
    shown = verifying.proof_badge(getattr(factories, make)(factories.failed_flow()))
    assert (shown.kind, re.findall("[0-9]+", shown.word)) == (kind, numbers)


def test_a_criterion_that_holds_with_accepted_repeats_comes_first_and_is_no_plain_yes() -> None:
    rows = verifying.criterion_rows(factories.repeated(factories.failed_flow()).proof, [])
    assert [(r.code, r.badge.kind) for r in rows[:2]] == [
        ("NO_KEY_TWICE", "attention"),
        (rows[1].code, "ok"),
    ]


def test_the_time_to_recover_is_split_into_waiting_and_work() -> None:
    at = [f"2026-11-22T03:0{minute}:00+00:00" for minute in (0, 4, 5, 7, 8)]
    times = Times(at[0], at[1], at[2], at[3], at[4], at[4], 480)
    assert [(s.kind, s.seconds, s.x, s.width) for s in words.time_spent(times)] == [
        ("a", 240, 0.0, 500.0),
        ("b", 60, 500.0, 125.0),
        ("a", 120, 625.0, 250.0),
        ("b", 60, 875.0, 125.0),
    ]


@pytest.mark.parametrize("noted", [(None, AT, AT), (AT, None, AT), (AT, AT, None)])
def test_the_time_is_not_split_where_a_moment_was_not_noted(noted: tuple[str | None, ...]) -> None:
    failed, sealed, proven = noted
    assert words.time_spent(Times(failed, AT, sealed, AT, proven, AT, None)) == []


def test_the_closing_words_claim_no_proof_that_was_not_given() -> None:
    one = factories.unproven(factories.failed_flow())
    first = words.closing_text(report(one, RESPONDER), "https://reprise.example").splitlines()[0]
    assert first.startswith("[Ended without proof]")
    assert "Proven" not in first


def test_the_page_is_the_responders(responder: Client) -> None:
    one = proven()
    answer = responder.get(f"/recoveries/{one.pk}/report")
    page = parse(answer.content.decode())
    assert page.one("time-to-recover").attributes["data-value"]
    assert page.one("closing")
    text = answer.content.decode()
    assert one.plans.get().hash in text
    for criterion in one.measured["criteria"]:
        assert f'data-code="{criterion["code"]}"' in text
    assert (
        f'href="/recoveries/{one.pk}/report"'
        in responder.get(f"/recoveries/{one.pk}/verify").content.decode()
    )


def test_json_by_button_and_by_api_is_the_same(responder: Client) -> None:
    one = proven()
    told = responder.get(f"/recoveries/{one.pk}/report.json").json()
    token = token_of("ada", Role.RESPONDER)
    by_api = Client().get(
        f"/api/v1/recoveries/{one.label}/report", headers={"Authorization": f"Bearer {token}"}
    )
    assert by_api.status_code == 200
    assert by_api.json() == told
    assert told["plan_hash"] == one.plans.get().hash
    assert told["measured"]["new_rows"] == 8


def test_the_report_names_readers_and_until_when_nothing_newer_reached_them() -> None:
    one = factories.reported()
    found = report(one, RESPONDER)
    good = one.diagnosis_value.last_good
    assert good is not None
    assert found.last_good == good
    readers = {reader.dataset: (reader.effect, bool(reader.refreshed_at)) for reader in found.readers}
    assert readers == {
        "spark_catalog.crm.customers": ("refreshed", True), "spark_catalog.crm.copy": ("doubled", False),
    }  # fmt: skip
    felt = next(ask for ask in words.report_asks(found) if ask.code == "who-felt-it")
    assert ("customers" in felt.answer, "copy" in felt.answer) == (True, True)
    assert f"{datetime.fromisoformat(good.at):%H:%M:%S} UTC" in felt.text


def test_of_an_older_recovery_nothing_is_claimed_of_readers() -> None:
    found = report(proven(), RESPONDER)
    assert (found.last_good, found.readers, found.reached, found.last_batch) == (None, (), (), None)
    felt = next(ask for ask in words.report_asks(found) if ask.code == "who-felt-it")
    assert (felt.answer, felt.text.count("UTC")) == ("Not known", 0)


def test_the_timeline_has_the_last_good_batch_and_when_what_is_below_was_refreshed() -> None:
    moments = [moment.code for moment in words.list_moments(report(factories.reported(), RESPONDER))]
    assert moments[0] == "last-good"
    assert "refreshed" in moments


def test_the_report_shows_positions_before_after_first_and_when_measured(responder: Client) -> None:
    page = parse(responder.get(f"/recoveries/{factories.reported().pk}/report").content.decode())
    assert [e.text for e in page.all("", data_code="reached")] == ['{"logOffset":3}']
    assert page.value("batches") == "2 3 3"
    older = parse(responder.get(f"/recoveries/{proven().pk}/report").content.decode())
    assert {e.text for e in older.all("", data_code="reached")} == {"not known"}


@pytest.mark.parametrize("name", ["verify", "report"])
def test_each_measured_criterion_leads_to_its_evidence(responder: Client, name: str) -> None:
    one = factories.reported()
    page = parse(responder.get(f"/recoveries/{one.pk}/{name}").content.decode())
    shown = page.all("td", data_label="Evidence")
    assert len(shown) == len(one.measured["criteria"])
    links = {e.attributes["href"] for e in page.all("a", data_code="evidence")}
    assert (
        links == {f"/recoveries/{one.pk}/log", f"/flows/{one.flow_id}/checkpoint?batch=3"} | {"#tb"} & links
    )


def test_a_criterion_that_was_not_measured_has_no_evidence(responder: Client) -> None:
    page = parse(responder.get(f"/recoveries/{factories.planned().pk}/verify").content.decode())
    assert page.all("a", data_code="evidence") == []


def test_who_may_not_read_the_log_gets_a_report_without_it(client: Client) -> None:
    one = proven()
    client.force_login(factories.person("viewer"))
    assert client.get(f"/recoveries/{one.pk}/report.json").json()["entries"] is None
    assert client.get(f"/recoveries/{one.pk}/report").status_code == 200


@pytest.mark.parametrize(
    "make", ["opened", "planned", "running", "unknown", "not_proven", "rolled_back", "cancelled"]
)
def test_a_recovery_in_any_state_has_its_report(responder: Client, make: str) -> None:
    one = getattr(factories, make)()
    assert responder.get(f"/recoveries/{one.pk}/report").status_code == 200


@pytest.mark.parametrize(("make", "links"), [("not_proven", 1), ("rolled_back", 0)])
def test_the_report_of_a_failed_proof_leads_to_what_can_be_done(
    responder: Client, make: str, links: int
) -> None:
    one = getattr(factories, make)()
    text = responder.get(f"/recoveries/{one.pk}/report").content.decode()
    assert text.count(f'href="/recoveries/{one.pk}/verify#do"') == links


def test_after_the_end_the_text_for_the_channel_is_the_closing_one(responder: Client) -> None:
    one = proven()
    page = responder.get(f"/recoveries/{one.pk}/verify").content.decode()
    assert f'data-copy="[Resolved] {one.label}' in page
    going = factories.running(factories.failed_flow())
    assert "[Resolved]" not in responder.get(f"/recoveries/{going.pk}/run").content.decode()


def test_verify_knows_when_it_failed_after_the_flow_has_forgotten_it(responder: Client) -> None:
    one = proven()
    page = responder.get(f"/recoveries/{one.pk}/verify").content.decode()
    assert "<dt>Failed</dt>" in page
