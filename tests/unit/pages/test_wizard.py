"""The wizard through its pages: each step is saved, a refusal stands on the page, nothing typed is lost."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from recovery.models import AuditEntry, Recovery, Step, Workspace
from recovery.workflow import broker
from tests import factories as f
from tests.pipelines_api import Api, serve
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wake-ups are sent on commit, which never comes in these tests; only that the broker is there is asked."""
    monkeypatch.setattr(broker, "check", lambda: None)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """The Pipelines API of workspace dev-eu."""
    (tmp_path / "token").write_text("t")
    with serve() as api:
        Workspace.objects.create(name="dev-eu", url=api.url, token_ref=f"file:{tmp_path}/token")
        yield api


def test_a_failed_flow_is_opened_in_ones_own_name_and_leads_to_the_diagnosis(responder: Client) -> None:
    flow = f.incident()

    answer = responder.post(f"/flows/{flow.pk}")

    recovery = Recovery.objects.get()
    assert answer["Location"] == f"/recoveries/{recovery.pk}/diagnose"
    assert recovery.created_by == "responder"
    page = text(responder, answer["Location"])
    assert "Why we say so" in page
    assert "dropDuplicates" in page


def test_a_second_recovery_is_refused_on_the_flow_page_with_the_first_ones_name(responder: Client) -> None:
    first = f.opened()

    answer = responder.post(f"/flows/{first.flow_id}")

    assert answer.status_code == 409
    assert f"{first.label}, opened by responder, is already open" in answer.content.decode()


def test_a_healthy_flow_cannot_be_recovered(responder: Client) -> None:
    flow = f.flow()

    assert "Diagnose and recover" not in text(responder, f"/flows/{flow.pk}")
    answer = responder.post(f"/flows/{flow.pk}")
    assert answer.status_code == 409
    assert Recovery.objects.count() == 0


def test_stopping_is_one_act_and_the_page_asks_until_it_is_read_back(responder: Client) -> None:
    recovery = f.opened()

    responder.post(f"/recoveries/{recovery.pk}/stop")

    assert Step.objects.get().kind == "stop"
    page = text(responder, f"/recoveries/{recovery.pk}/stop")
    assert "The pipeline is being stopped." in page
    assert 'hx-trigger="every 1s"' in page


def test_a_stopped_pipeline_is_said_with_what_was_read_back_and_is_not_asked_about_any_more(
    responder: Client,
) -> None:
    page = text(responder, f"/recoveries/{f.at_offset().pk}/stop")

    assert "No update of this pipeline is active." in page
    assert "update u-4 is CANCELED, no update is active" in page
    assert "hx-trigger" not in page


def test_a_dead_broker_is_one_sentence_and_changes_nothing(
    responder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recovery.errors import Unreachable

    def dead() -> None:
        raise Unreachable("The broker does not answer. Start it, then try again.", code="broker_down")

    monkeypatch.setattr(broker, "check", dead)
    recovery = f.opened()

    answer = responder.post(f"/recoveries/{recovery.pk}/stop")

    assert answer.status_code == 409
    assert "The broker does not answer. Start it, then try again." in answer.content.decode()
    assert Step.objects.count() == 0


def test_the_comparison_shows_every_strategy_with_its_numbers_and_the_blocked_one_with_its_reason(
    responder: Client,
) -> None:
    page = text(responder, f"/recoveries/{f.at_offset().pk}/offset")

    assert all(f'id="st-{name}"' in page for name in ("continue", "revert", "full-refresh", "empty"))
    assert 'id="st-continue" value="continue" checked' in page
    assert 'id="st-empty" value="empty" disabled' in page
    assert "It would silently lose 8 rows" in page
    assert "3 more strategies do not apply here" in page


def test_a_strategy_and_its_key_are_saved_and_stand_there_when_somebody_else_comes(responder: Client) -> None:
    recovery = f.at_offset()

    answer = responder.post(
        f"/recoveries/{recovery.pk}/offset", {"strategy": "revert", "key": " customer_id ,seq"}
    )

    assert answer["Location"] == f"/recoveries/{recovery.pk}/patch"
    recovery.refresh_from_db()
    assert recovery.choices == {"strategy": "revert", "key": ["customer_id", "seq"]}
    other = Client()
    other.force_login(f.person("responder", "second"))
    page = text(other, f"/recoveries/{recovery.pk}/offset")
    assert 'id="st-revert" value="revert" checked' in page
    assert 'value="customer_id, seq"' in page


def test_a_blocked_strategy_is_refused_and_what_was_typed_stays(responder: Client) -> None:
    recovery = f.at_offset()

    answer = responder.post(f"/recoveries/{recovery.pk}/offset", {"strategy": "empty", "key": "customer_id"})

    assert answer.status_code == 422
    page = answer.content.decode()
    assert "empty cannot be taken: It would silently lose 8 rows" in page
    assert 'value="customer_id"' in page
    recovery.refresh_from_db()
    assert recovery.choices == {}


def test_counting_again_is_one_press_and_shows_that_it_goes_on(responder: Client) -> None:
    recovery = f.at_offset()

    responder.post(f"/recoveries/{recovery.pk}/offset", {"act": "facts"})

    page = text(responder, f"/recoveries/{recovery.pk}/offset")
    assert "Rows are being counted." in page


def test_continue_needs_no_change_and_says_so(responder: Client, api: Api) -> None:
    page = text(responder, f"/recoveries/{f.at_patch().pk}/patch")

    assert "No change needed." in page
    assert "1 line removed" in page
    assert page.index("customers.py") < page.index("schema.py")


def test_revert_begins_with_the_code_of_the_last_good_update(responder: Client, api: Api) -> None:
    page = text(responder, f"/recoveries/{f.at_patch(strategy='revert').pk}/patch")

    assert "The code of the last good update is filled in." in page
    editor = page[page.index("<textarea") :]
    assert "dropDuplicates" in editor[: editor.index("</textarea>")]


LONG_KEY = [f"customer_column_number_{number:03d}" for number in range(20)]


def test_a_key_of_many_columns_is_saved_whole(responder: Client) -> None:
    recovery = f.at_offset()

    answer = responder.post(
        f"/recoveries/{recovery.pk}/offset", {"strategy": "continue", "key": ", ".join(LONG_KEY)}
    )

    assert answer.status_code == 302
    recovery.refresh_from_db()
    assert recovery.choices["key"] == LONG_KEY


def test_a_key_that_cannot_be_saved_is_refused_and_stays_in_the_field(responder: Client) -> None:
    recovery, key = f.at_offset(), "k" * 4001

    answer = responder.post(f"/recoveries/{recovery.pk}/offset", {"strategy": "continue", "key": key})

    assert answer.status_code == 422
    page = answer.content.decode()
    assert (
        "Key columns: Ensure this value has at most 4000 characters (it has 4001). Nothing was saved." in page
    )
    assert key in page
    assert 'maxlength="4000"' in page
    recovery.refresh_from_db()
    assert "strategy" not in recovery.choices


@pytest.mark.parametrize(
    ("told", "word"),
    [
        ({"status": "valid", "says": "validate_only: the graph is valid."}, "Valid"),
        ({"status": "invalid", "says": "[UNRESOLVED_COLUMN] no such column\nmore"}, "Not valid"),
        ({"status": "failed", "says": "The Pipelines API does not answer."}, "Could not be validated"),
    ],
)
def test_the_answer_of_the_validation_is_shown_as_what_it_is(
    responder: Client, api: Api, told: dict[str, str], word: str
) -> None:
    recovery = f.at_patch(choices=f.choices(validation=told))

    panel = text(responder, f"/recoveries/{recovery.pk}/patch?part=validation")

    assert f"</svg>{word}</span>" in panel
    assert told["says"].splitlines()[0] in panel
    assert "hx-trigger" not in panel


def test_a_workspace_that_is_away_is_said_on_the_patch_page(responder: Client) -> None:
    page = text(responder, f"/recoveries/{f.at_patch().pk}/patch")

    assert "Nothing was changed." in page
    assert "<textarea" not in page


def test_sealing_shows_that_it_goes_on_and_a_refusal_with_the_way_out(responder: Client) -> None:
    recovery = f.at_review()

    responder.post(f"/recoveries/{recovery.pk}/review")
    assert "The plan is being sealed." in text(responder, f"/recoveries/{recovery.pk}/review")

    failed = {
        "status": "failed",
        "problem": "continue cannot run: the code has an aggregation.",
        "code": "blocked",
    }
    Recovery.objects.update(choices=f.choices(patch={}, sealing=failed))
    page = text(responder, f"/recoveries/{recovery.pk}/review")
    assert "No plan was sealed: continue cannot run: the code has an aggregation." in page
    assert "hx-trigger" not in page


def test_a_sealed_plan_shows_its_hash_its_numbers_its_steps_and_one_primary_act(responder: Client) -> None:
    recovery = f.planned()

    page = text(responder, f"/recoveries/{recovery.pk}/review")

    assert recovery.plans.get().hash in page
    assert "Table 12 → 20 rows." in page
    assert "The first new batch is 3; new query id; state dropped (12 keys)." in page
    assert page.count("btn-primary") == 1
    assert "Run recovery of 1 flow" in page


def test_where_approvals_are_needed_the_plan_cannot_be_run_and_the_page_says_why(responder: Client) -> None:
    recovery = f.planned(f.incident("production"))

    page = text(responder, f"/recoveries/{recovery.pk}/review")

    assert "PRODUCTION" in page
    assert "Request 2 approvals" in page
    refused = responder.post(f"/recoveries/{recovery.pk}/run")
    assert refused.status_code == 409
    assert "asks for 2 approvals by other people" in refused.content.decode()


def test_a_void_plan_says_what_moved_and_stays_void(responder: Client) -> None:
    page = text(responder, f"/recoveries/{f.void().pk}/review")

    assert "is void: it no longer holds." in page
    assert "<del>7d20b91c</del>" in page
    assert "<ins>03aa1f77</ins>" in page
    assert "Seal again" in page
    assert "Run recovery" not in page


def test_an_earlier_step_of_a_running_recovery_can_be_read_and_not_changed(responder: Client) -> None:
    recovery = f.running()

    page = text(responder, f"/recoveries/{recovery.pk}/offset")

    assert "What this step decided can no longer be changed." in page
    assert responder.post(f"/recoveries/{recovery.pk}/offset", {"strategy": "revert"}).status_code == 422
    assert AuditEntry.objects.filter(action="recovery.strategy", outcome="failed").count() == 1


def test_a_sealed_plan_is_taken_back_on_the_review_page_and_the_choices_stay(responder: Client) -> None:
    recovery = f.planned()

    page = text(responder, f"/recoveries/{recovery.pk}/review")
    assert "Change strategy or code" in page
    answer = responder.post(f"/recoveries/{recovery.pk}/review", {"act": "edit"})

    assert answer["Location"] == f"/recoveries/{recovery.pk}/review"
    recovery.refresh_from_db()
    assert (recovery.state, recovery.choices["strategy"]) == ("diagnosing", "continue")
    page = text(responder, f"/recoveries/{recovery.pk}/review")
    assert "was taken back" in page
    assert "it no longer holds" not in page
    assert f'href="/recoveries/{recovery.pk}/offset"' in page


def test_who_may_not_recover_sees_why_a_plan_cannot_be_taken_back(client: Client) -> None:
    client.force_login(f.person("viewer"))

    page = text(client, f"/recoveries/{f.planned().pk}/review")

    assert re.search(r"<button[^>]*disabled[^>]*>Change strategy or code<", page)


def test_a_plan_that_must_be_approved_elsewhere_can_still_be_taken_back(responder: Client) -> None:
    recovery = f.planned(f.incident("production"))

    assert re.search(
        r'value="edit">Change strategy or code<', text(responder, f"/recoveries/{recovery.pk}/review")
    )
