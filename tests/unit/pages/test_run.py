"""The run, the proof and the ways out: live where something moves, honest where nothing is known."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from recovery.models import Recovery, Step
from recovery.workflow import broker, selectors
from tests import factories as f

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)


@pytest.fixture
def may_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What decides it reads storage and API; here only what the page makes of the answer is tested."""
    monkeypatch.setattr(selectors, "rollback_refusal", lambda recovery: None)


def text(client: Client, recovery: Recovery, page: str) -> str:
    return client.get(f"/recoveries/{recovery.pk}/{page}").content.decode()


def test_running_a_plan_is_one_press(responder: Client) -> None:
    recovery = f.planned()

    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"act": "execute"})

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run"
    recovery.refresh_from_db()
    assert recovery.state == "running"


def test_a_full_refresh_is_asked_once_more_on_a_page_of_its_own(responder: Client) -> None:
    recovery = f.planned(strategy="full-refresh")

    answer = responder.post(f"/recoveries/{recovery.pk}/run")

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run/confirm"
    recovery.refresh_from_db()
    assert recovery.state == "planned"
    page = text(responder, recovery, "run/confirm")
    assert "Empty 1 table in development and read everything again?" in page
    assert "doubled: 1 row (exact)" in page

    responder.post(f"/recoveries/{recovery.pk}/run", {"confirmed": "full-refresh"})
    recovery.refresh_from_db()
    assert recovery.state == "running"


def test_a_running_recovery_says_that_the_page_may_be_closed_and_asks_again(responder: Client) -> None:
    page = text(responder, f.running(), "run")

    assert "You may close this page." in page
    assert 'hx-trigger="every 1s"' in page
    assert "3 of 5 done" in page
    assert "Not while a step runs." in page


def test_a_poll_brings_the_live_part_only_and_nothing_when_nothing_moved(responder: Client) -> None:
    recovery = f.running()
    found = re.search(r"v=([0-9a-f]+)", text(responder, recovery, "run"))
    assert found is not None

    assert responder.get(f"/recoveries/{recovery.pk}/run?part=live&v={found[1]}").status_code in (200, 204)
    step = Step.objects.get(kind="rerun")
    line = [timezone.now().isoformat(), "Batch 3 committed."]
    Step.objects.filter(pk=step.pk).update(log=[*step.log, line])
    answer = responder.get(f"/recoveries/{recovery.pk}/run?part=live&v={found[1]}")

    assert answer.status_code == 200
    part = answer.content.decode()
    assert "Batch 3 committed." in part
    assert "<html" not in part


def test_a_recovery_that_ended_is_not_polled_any_more(responder: Client) -> None:
    recovery = f.verified()

    assert "hx-trigger" not in text(responder, recovery, "run")
    assert "hx-trigger" not in text(responder, recovery, "verify")


def test_an_unknown_step_is_never_called_failed_and_shows_its_evidence_line_by_line(
    responder: Client, may_go_back: None
) -> None:
    page = text(responder, f.unknown(), "run")

    assert "Nobody saw Rerun end" in page
    assert "Rerun: unknown" in page
    assert "</svg>Failed</span>" not in page
    assert "Batch 3 is not in the table: its log ends at 2." in page
    assert page.index("Whether update 7c1f02d4 still runs") > page.index("Not proven")
    assert "not as it should be after this step" in page
    assert re.search(r'id="primary">Resume<', page)
    assert ">Roll back</a>" in page


def test_before_the_probe_has_answered_nobody_may_resume(responder: Client, may_go_back: None) -> None:
    recovery = f.unknown()
    Step.objects.filter(state="unknown").update(evidence=[])

    page = text(responder, recovery, "run")

    assert "A probe is reading what happened." in page
    assert re.search(r"<button[^>]*disabled[^>]*>Resume<", page)
    assert responder.post(f"/recoveries/{recovery.pk}/run").status_code == 409


def test_a_failed_step_can_be_resumed(responder: Client, may_go_back: None) -> None:
    recovery = f.failed_step()

    page = text(responder, recovery, "run")
    assert "There is no space left" in page

    responder.post(f"/recoveries/{recovery.pk}/run", {"confirmed": "resume"})
    recovery.refresh_from_db()
    assert recovery.state == "running"


def test_a_rollback_that_is_not_possible_stays_visible_with_its_reason(
    responder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "rollback_refusal", lambda recovery: "Batch 3 is committed in the table.")
    recovery = f.failed_step()

    assert "Batch 3 is committed in the table." in text(responder, recovery, "run")
    page = text(responder, recovery, "rollback")
    assert re.search(r"<button[^>]*disabled[^>]*>Roll back 1 flow<", page)


def test_the_log_can_be_taken_along_as_plain_text(responder: Client) -> None:
    recovery = f.running()

    answer = responder.get(f"/recoveries/{recovery.pk}/log")

    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "rerun Update 7c1f02d4 accepted." in answer.content.decode()


def test_the_proof_is_shown_with_every_criterion_and_the_forecast_beside_it(responder: Client) -> None:
    page = text(responder, f.verified(), "verify")

    assert "Every expected row is in the table exactly once." in page
    assert "6 hold, 0 fail, 0 unknown" in page
    assert "The forecast was wrong." not in page


def test_a_failed_proof_names_the_rows_and_keeps_the_recovery_open(responder: Client) -> None:
    page = text(responder, f.not_proven(), "verify")

    assert "2 expected rows are not in the table." in page
    assert "The forecast was wrong." in page
    assert "<code>1004</code>" in page
    assert "Measure again" in page


def test_cancelling_asks_for_a_reason_and_ends_it(responder: Client) -> None:
    recovery = f.at_offset()

    assert "Cancel R-" in text(responder, recovery, "cancel")
    answer = responder.post(f"/recoveries/{recovery.pk}/cancel", {"reason": "Wrong flow."})

    assert answer["Location"] == f"/flows/{recovery.flow_id}"
    recovery.refresh_from_db()
    assert (recovery.state, recovery.reason) == ("cancelled", "Wrong flow.")


def test_a_recovery_that_changed_something_cannot_be_cancelled_and_the_reason_typed_stays(
    responder: Client,
) -> None:
    recovery = f.failed_step()

    answer = responder.post(f"/recoveries/{recovery.pk}/cancel", {"reason": "Enough of it."})

    assert answer.status_code == 409
    assert "has changed something already" in answer.content.decode()
    assert "Enough of it." in answer.content.decode()


def test_the_text_for_the_channel_says_what_where_and_the_address(responder: Client) -> None:
    recovery = f.planned()

    page = text(responder, recovery, "review")

    assert (
        f"{recovery.label}: customers_incremental_flow of pipeline customers (development, workspace dev-eu)."
        in page
    )
    assert f"/recoveries/{recovery.label}" in page


def test_a_run_can_be_stopped_with_what_that_does_beside_it(responder: Client) -> None:
    recovery = f.running()

    page = text(responder, recovery, "run")
    assert re.search(r'name="act" value="stop">Stop this run<', page)
    assert "begins no further step" in page
    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"act": "stop"})

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run"
    page = text(responder, recovery, "run")
    assert "responder stopped this run" in page
    assert 'value="stop"' not in page


def test_who_may_not_recover_sees_why_the_run_cannot_be_stopped_from_here(client: Client) -> None:
    client.force_login(f.person("viewer"))

    page = text(client, f.running(), "run")

    assert re.search(r"<button[^>]*disabled[^>]*>Stop this run<", page)
    assert "Your role, viewer, may not" in page


def test_a_full_refresh_is_stopped_without_being_asked_once_more(responder: Client) -> None:
    recovery = f.running(strategy="full-refresh")

    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"act": "stop"})

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run"


def test_a_run_that_ended_meanwhile_is_not_stopped_and_that_is_said(
    responder: Client, may_go_back: None
) -> None:
    recovery = f.failed_step()

    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"act": "stop"})

    assert answer.status_code == 409
    assert "only while it is running" in answer.content.decode()


def test_a_stopped_run_says_where_it_stands_and_can_be_resumed(responder: Client, may_go_back: None) -> None:
    recovery = f.halted()

    page = text(responder, recovery, "run")
    assert "The run was stopped before Rerun" in page
    assert "responder stopped the run before step rerun." in page
    assert "did not begin" in page

    responder.post(f"/recoveries/{recovery.pk}/run", {"confirmed": "resume"})
    recovery.refresh_from_db()
    assert recovery.state == "running"


def test_a_step_that_is_never_skipped_says_why_beside_the_other_choices(
    responder: Client, may_go_back: None
) -> None:
    recovery = f.failed_step()

    page = text(responder, recovery, "run")
    assert "Step seed is never skipped. The update would start on the checkpoint that failed." in page
    assert f"/recoveries/{recovery.pk}/skip" not in page
    page = text(responder, recovery, "skip")
    assert re.search(r"<button[^>]*disabled[^>]*>Skip Reset flow<", page)
    answer = responder.post(f"/recoveries/{recovery.pk}/skip", {"reason": "In a hurry."})
    assert answer.status_code == 409
    assert "In a hurry." in answer.content.decode()


def test_a_proof_that_does_not_hold_is_given_up_with_a_reason_and_never_shown_as_proven(
    responder: Client, may_go_back: None
) -> None:
    recovery = f.not_proven()
    Step.objects.filter(recovery=recovery, kind="rerun").update(state="done")

    assert "End without proof" in text(responder, recovery, "verify")
    assert "The recovery ends as unproven, never as succeeded." in text(responder, recovery, "skip")
    answer = responder.post(f"/recoveries/{recovery.pk}/skip", {"reason": "Two rows are mended by hand."})

    assert answer["Location"] == f"/recoveries/{recovery.label}"
    recovery.refresh_from_db()
    assert recovery.state == "unproven"
    for page in ("verify", "run"):
        shown = text(responder, recovery, page)
        assert "Ended without proof" in shown
        assert "Step verify was skipped by responder: Two rows are mended by hand." in shown
        assert "Every expected row is in the table exactly once.</h2>" not in shown
        assert ">Proven<" not in shown
    assert "Ended without proof" in responder.get("/recoveries").content.decode()


def test_who_may_not_reset_does_not_see_the_way_out_of_a_proof(client: Client) -> None:
    client.force_login(f.person("viewer"))

    assert "End without proof" not in text(client, f.not_proven(), "verify")


def test_the_owner_stands_on_the_pages_and_in_the_list_and_can_be_changed(
    responder: Client, client: Client
) -> None:
    recovery = f.running()
    f.person("responder", "grace")

    page = text(responder, recovery, "run")
    assert "Owner responder" in page
    assert ">hand over</a>" in page
    assert "<option>grace</option>" in text(responder, recovery, "owner")
    answer = responder.post(f"/recoveries/{recovery.pk}/owner", {"to": "grace", "was": "responder"})
    assert answer["Location"] == f"/recoveries/{recovery.label}"
    assert "Owner grace" in text(responder, recovery, "run")
    assert ">take over</a>" in text(responder, recovery, "run")
    listed = responder.get("/recoveries").content.decode()
    assert '<td data-label="Owner"><div>grace</div></td>' in listed

    answer = responder.post(f"/recoveries/{recovery.pk}/owner", {"was": "responder", "reason": "I know it."})
    assert answer.status_code == 409
    assert "somebody else was faster" in answer.content.decode()
    assert "I know it." in answer.content.decode()
    answer = responder.post(f"/recoveries/{recovery.pk}/owner", {"was": "grace", "reason": "I know it."})
    assert answer.status_code == 302
    recovery.refresh_from_db()
    assert recovery.owner == "responder"


def test_who_may_only_look_sees_the_owner_and_no_way_to_change_it(client: Client) -> None:
    client.force_login(f.person("viewer"))

    page = text(client, f.running(), "run")

    assert "Owner responder" in page
    assert "/owner" not in page


def test_an_ended_recovery_keeps_its_owner(responder: Client) -> None:
    recovery = f.verified()

    assert "/owner" not in text(responder, recovery, "verify")
    assert re.search(r"<button[^>]*disabled[^>]*>Hand over R-", text(responder, recovery, "owner"))


def test_a_run_is_paused_after_the_step_that_runs_and_can_still_be_stopped(responder: Client) -> None:
    recovery = f.running()

    assert "Lets the step that runs end" in text(responder, recovery, "run")
    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"act": "pause"})

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run"
    page = text(responder, recovery, "run")
    assert "responder paused this run" in page
    assert 'value="stop"' in page
    assert 'value="pause"' not in page
