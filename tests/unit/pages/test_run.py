"""The run, the proof and the ways out: live where something moves, honest where nothing is known."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from recovery.models import Plan, Recovery, Step
from recovery.workflow import actions, broker, selectors
from recovery.workflow.steps.rollback import RollbackRefusal
from tests import factories as f
from tests.pages import Element, asked, refusal

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)


@pytest.fixture
def may_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What decides it reads storage and API; here only what the page makes of the answer is tested."""
    monkeypatch.setattr(selectors, "rollback_refusal", lambda recovery: None)


def on(client: Client, recovery: Recovery, page: str) -> Element:
    return asked(client, f"/recoveries/{recovery.pk}/{page}")


def text(client: Client, recovery: Recovery, page: str) -> str:
    return client.get(f"/recoveries/{recovery.pk}/{page}").content.decode()


def press_run(client: Client, recovery: Recovery, **given: str) -> Any:
    """Start or resume what the page shows now."""
    return client.post(f"/recoveries/{recovery.pk}/run", {"hash": recovery.plans.latest("pk").hash, **given})


def test_running_a_plan_is_one_press(responder: Client) -> None:
    recovery = f.planned()

    answer = press_run(responder, recovery, act="execute")

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run"
    recovery.refresh_from_db()
    assert recovery.state == "running"


@pytest.mark.parametrize(
    ("make", "page"),
    [(f.planned, "review"), (f.planned, "run/confirm"), (f.failed_step, "run")],
    ids=["start", "confirmation", "resume"],
)
def test_what_starts_is_the_plan_that_the_page_showed(
    responder: Client, may_go_back: None, make: Callable[[], Recovery], page: str
) -> None:
    recovery = make()
    shown = on(responder, recovery, page).all("input", name="hash")
    plan = recovery.plans.get()
    assert {e.attributes["value"] for e in shown} == {plan.hash}
    Plan.objects.filter(pk=plan.pk).update(hash="f" * 64)  # as another that was sealed meanwhile
    before = recovery.state

    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"confirmed": "yes", "hash": plan.hash})
    assert (answer.status_code, refusal(answer)) == (409, "stale_plan")
    without = responder.post(f"/recoveries/{recovery.pk}/run", {"confirmed": "yes"})
    assert (without.status_code, refusal(without)) == (409, "stale_plan")
    recovery.refresh_from_db()
    assert recovery.state == before


def test_what_is_rolled_back_is_the_plan_that_the_page_showed(
    responder: Client, may_go_back: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "_rollback_refusal", lambda recovery: None)
    recovery = f.failed_step()
    given = {"reason": "ticket 17", "hash": "0" * 64}

    answer = responder.post(f"/recoveries/{recovery.pk}/rollback", given)
    assert (answer.status_code, refusal(answer)) == (409, "stale_plan")
    assert not recovery.steps.filter(kind="rollback").exists()

    seen = {**given, "hash": recovery.plans.get().hash}
    assert responder.post(f"/recoveries/{recovery.pk}/rollback", seen).status_code == 302


def test_a_full_refresh_is_asked_once_more_on_a_page_of_its_own(responder: Client) -> None:
    recovery = f.planned(strategy="full-refresh")

    answer = press_run(responder, recovery)

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run/confirm"
    recovery.refresh_from_db()
    assert recovery.state == "planned"
    page = on(responder, recovery, "run/confirm")
    assert page.one("full-refresh")
    assert page.value("doubled") == "1"

    press_run(responder, recovery, confirmed="full-refresh")
    recovery.refresh_from_db()
    assert recovery.state == "running"


def test_an_empty_reset_has_no_way_back_and_is_asked_once_more_too(responder: Client) -> None:
    recovery = f.planned(strategy="empty")
    assert on(responder, recovery, "review").one("bar-reads-all-again")

    answer = press_run(responder, recovery)

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run/confirm"
    assert on(responder, recovery, "run/confirm").one("empty")
    press_run(responder, recovery, confirmed="empty")
    recovery.refresh_from_db()
    assert recovery.state == "running"


def test_rows_are_deleted_only_where_a_person_confirms_it(responder: Client) -> None:
    recovery = f.planned()
    plan = recovery.plans.get()
    steps = [{"kind": "stop", "says": ""}, {"kind": "deduplicate", "says": "", "args": {"rows": 3}}]
    Plan.objects.filter(pk=plan.pk).update(body={**plan.body, "strategy": "deduplicate", "steps": steps})
    Recovery.objects.filter(pk=recovery.pk).update(strategy="deduplicate")

    answer = press_run(responder, recovery)

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run/confirm"
    page = on(responder, recovery, "run/confirm")
    assert page.one("deduplicate")
    assert "delete 3 rows" in page.text


def test_a_running_recovery_says_that_the_page_may_be_closed_and_asks_again(responder: Client) -> None:
    page = on(responder, f.running(), "run")

    assert page.one("page-may-be-closed")
    assert page.all(hx_trigger="every 1s")
    assert [e.attributes["data-value"] for e in page.all("li", data_value=True)].count("ok") == 3
    assert page.one("step-runs")
    assert page.disabled("rollback")


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
    recovery = f.unknown()
    page = on(responder, recovery, "run")
    evidence = {line["says"]: line["proven"] for line in recovery.steps.get(state="unknown").evidence}

    assert page.one("end-not-seen")
    assert page.value("step-rerun") == "unknown"
    assert not page.all(class_="badge badge-failed")
    assert set(page.one("proven").codes) == {"ok", "attention"}
    assert set(page.one("not-proven").codes) == {"unknown"}
    for says, proven in evidence.items():
        assert says in page.one("not-proven" if proven is None else "proven").text
    assert (page.primary() or {})["value"] == "prove"
    assert not page.disabled("resume")
    assert f"/recoveries/{recovery.pk}/rollback" in page.links()


def test_before_the_probe_has_answered_nobody_may_resume(responder: Client, may_go_back: None) -> None:
    recovery = f.unknown()
    Step.objects.filter(state="unknown").update(evidence=[])

    page = on(responder, recovery, "run")

    assert page.one("probe-reads")
    assert page.disabled("resume")
    assert press_run(responder, recovery).status_code == 409


def test_an_act_that_the_page_does_not_know_starts_nothing(responder: Client, may_go_back: None) -> None:
    recovery = f.failed_step()
    assert responder.post(f"/recoveries/{recovery.pk}/run", {"act": "stop-and-prove"}).status_code == 400
    recovery.refresh_from_db()
    assert recovery.state == "needs_attention"


def test_a_failed_step_can_be_resumed(responder: Client, may_go_back: None) -> None:
    recovery = f.failed_step()

    page = on(responder, recovery, "run")
    assert recovery.steps.get(state="failed").problem in page.one("step-failed").text

    press_run(responder, recovery, confirmed="resume")
    recovery.refresh_from_db()
    assert recovery.state == "running"


def test_a_rollback_that_is_not_possible_stays_visible_with_its_reason(
    responder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "Batch 3 is committed."
    monkeypatch.setattr(selectors, "rollback_refusal", lambda recovery: RollbackRefusal(why))
    recovery = f.failed_step()

    page = on(responder, recovery, "run")
    assert [why in e.text for e in page.all(data_code="not-undoable")] == [
        True,
        True,
    ]  # as a choice, as way back
    page = on(responder, recovery, "rollback")
    assert page.disabled("rollback")
    assert page.all(id="why")[0].text == why


def test_the_log_can_be_taken_along_as_plain_text(responder: Client) -> None:
    recovery = f.running()

    answer = responder.get(f"/recoveries/{recovery.pk}/log")

    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    line = Step.objects.get(kind="rerun").log[0]
    assert f"{line[0]} rerun {line[1]}" in answer.content.decode()


def test_the_proof_is_shown_with_every_criterion_and_the_forecast_beside_it(responder: Client) -> None:
    page = on(responder, f.verified(), "verify")

    assert page.one("proven")
    assert [r.attributes["data-value"] for r in page.all("tr", data_code=True)] == ["ok"] * 8
    assert "forecast-wrong" not in page.codes


def test_a_failed_proof_names_the_rows_and_keeps_the_recovery_open(responder: Client) -> None:
    recovery = f.not_proven()
    page = on(responder, recovery, "verify")

    wrong = next(c for c in recovery.measured["criteria"] if c["ok"] is False)
    assert wrong["why"] in page.one("not-proven").text
    assert page.value(wrong["code"]) == "failed"
    assert page.one("forecast-wrong")
    assert "1004, 3" in [code.text for code in page.all("code")]
    assert page.primary()


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

    assert (answer.status_code, refusal(answer)) == (409, "touched")
    assert "Enough of it." in answer.content.decode()


def test_the_text_for_the_channel_says_what_where_and_the_address(responder: Client) -> None:
    recovery = f.planned()

    page = on(responder, recovery, "review")

    for part in (recovery.label, recovery.flow.short, "customers", "development", "dev-eu"):
        assert part in page.all("button", data_act="hand-over")[0].attributes["data-copy"]
    assert (
        f"/recoveries/{recovery.label}" in page.all("button", data_act="hand-over")[0].attributes["data-copy"]
    )


def test_a_run_can_be_stopped_with_what_that_does_beside_it(responder: Client) -> None:
    recovery = f.running()

    page = on(responder, recovery, "run")
    assert "stop" in page.acts()
    assert page.one("stop-does")
    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"act": "stop"})

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run"
    page = on(responder, recovery, "run")
    assert page.value("halted") == "responder"
    assert "stop" not in page.acts()


def test_who_may_not_recover_sees_why_the_run_cannot_be_stopped_from_here(client: Client) -> None:
    client.force_login(f.person("viewer"))

    page = on(client, f.running(), "run")

    assert page.disabled("stop")
    assert page.one("may-not-stop")


def test_a_full_refresh_is_stopped_without_being_asked_once_more(responder: Client) -> None:
    recovery = f.running(strategy="full-refresh")

    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"act": "stop"})

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run"


def test_a_run_that_ended_meanwhile_is_not_stopped_and_that_is_said(
    responder: Client, may_go_back: None
) -> None:
    recovery = f.failed_step()

    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"act": "stop"})

    assert (answer.status_code, refusal(answer)) == (409, "wrong_state")


def test_a_stopped_run_says_where_it_stands_and_can_be_resumed(responder: Client, may_go_back: None) -> None:
    recovery = f.halted()

    page = on(responder, recovery, "run")
    assert recovery.reason in page.one("run-stopped").text
    assert page.value("step-rerun") == "pending"

    press_run(responder, recovery, confirmed="resume")
    recovery.refresh_from_db()
    assert recovery.state == "running"


def test_a_step_that_is_never_skipped_says_why_beside_the_other_choices(
    responder: Client, may_go_back: None
) -> None:
    recovery = f.failed_step()

    page = on(responder, recovery, "run")
    assert page.one("never-skipped")
    assert f"/recoveries/{recovery.pk}/skip" not in page.links()
    page = on(responder, recovery, "skip")
    assert page.disabled("skip")
    answer = responder.post(f"/recoveries/{recovery.pk}/skip", {"reason": "In a hurry."})
    assert (answer.status_code, refusal(answer)) == (409, "not_skippable")
    assert "In a hurry." in answer.content.decode()


def test_a_proof_that_does_not_hold_is_given_up_with_a_reason_and_never_shown_as_proven(
    responder: Client, may_go_back: None
) -> None:
    recovery = f.not_proven()
    Step.objects.filter(recovery=recovery, kind="rerun").update(state="done")

    reason = "Correction by hand."
    assert f"/recoveries/{recovery.pk}/skip" in on(responder, recovery, "verify").links()
    assert on(responder, recovery, "skip").one("skip-verify")
    answer = responder.post(f"/recoveries/{recovery.pk}/skip", {"reason": reason})

    assert answer["Location"] == f"/recoveries/{recovery.label}"
    recovery.refresh_from_db()
    assert recovery.state == "unproven"
    for page in ("verify", "run"):
        shown = on(responder, recovery, page)
        assert "unproven" in shown.codes
        assert "proven" not in shown.codes
        assert reason in shown.one("unproven").text
    assert asked(responder, "/recoveries").all("tr", data_code="unproven")


def test_who_may_not_reset_does_not_see_the_way_out_of_a_proof(client: Client) -> None:
    client.force_login(f.person("viewer"))

    recovery = f.not_proven()
    assert f"/recoveries/{recovery.pk}/skip" not in on(client, recovery, "verify").links()


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
    assert (answer.status_code, refusal(answer)) == (409, "lost_race")
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
    assert on(responder, recovery, "owner").disabled("owner")


def test_a_run_is_paused_after_the_step_that_runs_and_can_still_be_stopped(responder: Client) -> None:
    recovery = f.running()

    assert on(responder, recovery, "run").one("pause-does")
    answer = responder.post(f"/recoveries/{recovery.pk}/run", {"act": "pause"})

    assert answer["Location"] == f"/recoveries/{recovery.pk}/run"
    page = on(responder, recovery, "run")
    assert page.value("paused") == "responder"
    assert "stop" in page.acts()
    assert "pause" not in page.acts()


def test_an_unknown_step_has_its_probe_table_and_the_ways_on(responder: Client, may_go_back: None) -> None:
    page = on(responder, f.unknown(), "run")

    read = ("worker", "lock", "checkpoint", "old_version", "table")
    open_ones = ("effect", "active", "query", "last_event", "others", "spark", "rows")
    assert {c: page.value(c) for c in (*read, *open_ones)} == dict.fromkeys(read, "ok") | dict.fromkeys(
        open_ones, "unknown"
    )
    assert page.value("probe") == "1"
    ladder = [
        c for c in page.codes if c in ("stop-and-prove", "wait-for-probe", "say-known", "resume", "rollback")
    ]
    assert ladder == ["stop-and-prove", "wait-for-probe", "say-known", "resume", "rollback"]
    assert page.one("whom-to-call")


def test_while_its_query_may_run_an_unknown_step_is_not_called_known(
    responder: Client, may_go_back: None
) -> None:
    recovery = f.unknown()
    step = recovery.steps.get(state="unknown")
    probe = step.result["probe"]
    for reading in probe["readings"]:
        reading["proven"] = None if reading["asked"] == "query" else True
    Step.objects.filter(pk=step.pk).update(
        result={**step.result, "probe": probe}, evidence=[{"proven": True, "says": "It started no update."}]
    )

    page = on(responder, recovery, "run")

    assert page.one("effect-not-known")
    assert page.one("not-proven").codes == ["unknown"]
    assert page.one("wait-for-probe")


def test_what_somebody_knows_is_said_on_a_page_and_stands_on_the_run(
    responder: Client, may_go_back: None
) -> None:
    recovery = f.unknown()
    path = f"/recoveries/{recovery.pk}/run/statement"
    assert responder.get(path).status_code == 200
    assert responder.post(path, {"reason": " "}).status_code == 422
    assert responder.post(path, {"reason": "Powered off."}).status_code == 302
    assert on(responder, recovery, "run").value("statement") == "responder"
    told = responder.get(f"/recoveries/{recovery.pk}/run/evidence.json").json()
    assert told["statements"][0]["says"] == "Powered off."
    assert told["probe"]["number"] == 1


def test_a_failed_proof_has_its_ways_on_and_says_what_was_not_measured(
    responder: Client, may_go_back: None
) -> None:
    page = on(responder, f.not_proven(), "verify")

    ways = ("ask-owner", "measure-again", "rollback", "not-undoable", "end-without-proof", "never-skipped")
    told = [c for c in page.codes if c in ways]
    assert told[:2] == ["ask-owner", "measure-again"]
    assert set(told[2:]) == {"rollback", "end-without-proof"}
    for code in ("missing-rows", "changed-files", "SOURCE_FILE_CHANGED", "do-not", "stays"):
        assert page.one(code)


def test_where_the_code_changed_a_type_the_table_has_to_follow_and_no_owner_of_the_input_is_asked(
    responder: Client, may_go_back: None
) -> None:
    recovery = f.not_proven()
    measured = recovery.measured
    before = next(c for c in measured["criteria"] if c["code"] == "ROWS_OF_BEFORE_UNTOUCHED")
    before |= {"ok": False, "measured": {**before["measured"], "misread": ["reading_id"]}}
    type(recovery).objects.filter(pk=recovery.pk).update(measured=measured)
    page = on(responder, recovery, "verify")
    assert "ask-owner" not in page.codes
    way = page.one("rewrite-or-new-table").text
    assert ("reading_id" in way, "Recommended" in way) == (True, True)


def test_a_proof_that_holds_asks_for_nothing(responder: Client, may_go_back: None) -> None:
    page = on(responder, f.verified(), "verify")
    assert not {"ways-on", "do-not", "missing-rows", "changed-files"} & set(page.codes)
