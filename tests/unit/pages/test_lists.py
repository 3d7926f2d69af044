"""Inventory, flow, recoveries, audit, settings and tokens, as people use them."""

import html
import re
import time

import pytest
from django.test import Client
from django.urls import reverse

from recovery.contracts.diagnosis import ChainedError
from recovery.models import Flow, Token
from recovery.pipelines.failures import FailurePhase, UpdateFailure
from tests import factories as f
from tests.pages import asked, parse
from tests.unit.pages.reading import proved, signed_in, text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("role", "leads"), [("admin", True), ("responder", False)])
def test_without_a_workspace_the_page_leads_to_the_form_who_may_add_one(role: str, leads: bool) -> None:
    page = text(signed_in(f.person(role)), "/")

    assert 'data-code="no-workspace"' in page
    assert (f'href="{reverse("workspace-add")}"' in page) is leads


def test_without_a_pipeline_the_page_says_when_the_first_will_be_seen(responder: Client) -> None:
    f.workspace()

    assert "No pipeline yet" in text(responder, "/")


def test_when_nothing_fails_the_page_says_so_and_offers_the_rest(responder: Client) -> None:
    f.flow()

    page = text(responder, "/")

    assert "Nothing needs attention" in page
    assert "customers_snapshot_flow" not in page
    assert "customers_snapshot_flow" in text(responder, "/?show=all")


def test_the_list_begins_with_what_needs_attention_and_offers_the_next_act(responder: Client) -> None:
    failed = f.incident()

    page = text(responder, "/")

    assert parse(page).value("attention") == "1"
    assert f'href="/flows/{failed.pk}">Diagnose' in page
    recovery = f.opened(failed)
    assert f"Open {recovery.label}" in text(responder, "/")


def test_states_and_updates_are_drawn_and_not_written_out(responder: Client) -> None:
    f.incident()

    page = parse(text(responder, "/?show=all"))

    states = [
        e.attributes["class"] for e in page.all("span") if e.attributes.get("class", "").startswith("badge ")
    ]
    assert states == ["badge badge-failed", "badge badge-ok", "badge badge-ok"]
    assert len(page.all(class_="dots")) == 3


def whole_failure(
    condition: str = "PIPELINE_CODE_FAILED", file: str = "01_bronze_tax.py"
) -> dict[str, object]:
    cause = ChainedError(class_name="KeyError", message="'S3_BUCKET'", file=file, line="25")
    causes = (cause,) if condition == "PIPELINE_CODE_FAILED" else ()
    failure = UpdateFailure("u-9", FailurePhase.BEFORE, condition=condition, causes=causes)
    return {"judged": "failed", "judged_since": f.ago(minutes=47), "failure": failure.as_json()}


def test_a_pipeline_that_failed_before_it_had_a_flow_is_a_row_with_its_cause(responder: Client) -> None:
    tax = f.pipeline(name="bronze_tax", **whole_failure())

    page = text(responder, "/")

    assert parse(page).value("attention") == "1"
    assert parse(page).value("pipeline-failed") == "bronze_tax"
    assert "'S3_BUCKET' in 01_bronze_tax.py" in html.unescape(page)
    own = parse(text(responder, f"/pipelines/{tax.pk}"))
    assert own.value("pipeline-failed") == "PIPELINE_CODE_FAILED"


def test_a_pipeline_whose_flows_fail_with_it_has_no_row_beside_them(responder: Client) -> None:
    f.failed_flow(f.pipeline(name="bronze_tax", **whole_failure()))

    page = parse(text(responder, "/"))

    assert page.value("attention") == "1"
    assert not page.all(data_code="pipeline-failed")


def test_a_cancelled_update_is_a_row_and_its_flow_is_not_as_it_should_be(responder: Client) -> None:
    tax = f.pipeline(name="bronze_tax", **whole_failure("PIPELINE_CANCELLED"))
    flow = f.flow(tax)

    assert parse(text(responder, "/")).value("pipeline-failed") == "bronze_tax"
    assert 'class="diagnosis diagnosis-ok"' not in text(responder, f"/flows/{flow.pk}")


def test_a_pipeline_of_an_environment_that_one_may_not_see_is_not_there(client: Client) -> None:
    tax = f.pipeline(name="bronze_tax", environment="production", **whole_failure())
    client.force_login(f.person("none"))

    assert client.get(f"/pipelines/{tax.pk}").status_code in (403, 404)


def test_a_view_that_is_empty_needs_attention_in_list_and_graph_and_on_the_page_of_what_it_reads(
    responder: Client,
) -> None:
    feeding = f.flow(short="customers_incremental_flow")
    late = {"behind_since": f.ago(minutes=32), "behind_why": "emptied", "behind_update": "u-4"}
    view = f.view(feeding.pipeline, state="empty", **late)

    assert parse(text(responder, "/")).value("attention") == "1"
    assert "EMPTY_<wbr>EMPTIED" in text(responder, "/")
    for flow in (feeding, view):
        page = text(responder, f"/flows/{flow.pk}")
        assert ">ok</text>" not in page.split("customers (view)")[1].split("</a>")[0]
        assert 'class="diagnosis diagnosis-ok"' not in page
    shown = parse(text(responder, f"/flows/{feeding.pk}"))
    assert shown.value("empty") == view.dataset


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("show=all&q=snapshot", ["customers", "customers_snapshot_flow"]),
        ("show=all&q=STATEFUL%20operator", ["customers_incremental_flow"]),
        ("show=all&env=production", []),
        (f"show=all&class={f.CONDITION}", ["customers_incremental_flow"]),
        ("show=recovering", []),
        ("show=nonsense", ["customers_incremental_flow"]),
    ],
)
def test_filters_stand_in_the_address_so_that_a_view_can_be_pasted(
    responder: Client, query: str, found: list[str]
) -> None:
    failed = f.incident()
    Flow.objects.filter(streaming=False).update(dataset="spark_catalog.crm.customers_snapshot_view")

    page = text(responder, f"/?{query}")

    assert re.findall(r'class="name" href="[^"]*">([^<]*)<', page) == found
    assert failed.state == "failed"


def test_a_workspace_that_does_not_answer_is_said_with_the_age_of_what_is_shown(responder: Client) -> None:
    f.incident()
    place = f.workspace()
    place.poll_error, place.polled_at = "The Pipelines API does not answer.", f.ago(minutes=4)
    place.save()

    page = text(responder, "/")

    assert parse(page).value("workspace-away") == "dev-eu"
    assert "4 min ago" in page
    assert "1 workspace without answer" in page


def test_a_list_that_nobody_has_polled_for_a_minute_does_not_call_itself_live(responder: Client) -> None:
    f.workspace(polled_at=f.ago(minutes=2))

    assert asked(responder, "/").all(data_code="not-polled")


def test_the_polled_part_answers_nothing_when_nothing_is_new(responder: Client) -> None:
    f.incident()
    page = text(responder, "/")
    version = re.search(r"v=([0-9a-f]+)", page)
    assert version is not None

    same = responder.get(f"/?part=list&v={version[1]}")
    Flow.objects.filter(state="failed").update(state="ok")
    other = responder.get(f"/?part=list&v={version[1]}")

    assert other.status_code == 200
    assert "<html" not in other.content.decode()
    assert same.status_code in (200, 204)  # 200 when the quarter minute ended in between


def test_a_production_flow_wears_the_band(responder: Client) -> None:
    failed = f.incident("production")

    assert '<p class="band"><b>PRODUCTION</b>' in text(responder, f"/flows/{failed.pk}")


def test_the_flow_page_says_what_is_wrong_and_what_it_feeds(responder: Client) -> None:
    failed = f.incident()

    page = text(responder, f"/flows/{failed.pk}")

    assert "Diagnose and recover" in page
    assert page.count("btn-primary") == 1
    assert parse(page).one("causes")
    assert "customers (view)" in page


def test_recoveries_are_listed_with_the_open_ones_first(responder: Client) -> None:
    first = f.opened(f.failed_flow(f.pipeline()))
    f.verified(f.failed_flow(f.pipeline()))

    page = text(responder, "/recoveries")

    assert re.findall(r">(R-\d+)</a>", page)[0] == first.label
    assert len(re.findall(r">(R-\d+)</a>", text(responder, "/recoveries?show=ended"))) == 1


def test_a_token_is_shown_once_and_withdrawn_by_its_owner_alone() -> None:
    responder = signed_in(f.person("responder"))
    page = responder.post("/account", {"name": "laptop", "days": "30"}).content.decode()
    shown = re.search(r"rp_[\w-]{20,}", page)
    assert shown is not None
    assert shown[0] not in text(responder, "/account")
    token = Token.objects.get()

    other = Client()
    other.force_login(f.person("viewer"))
    assert other.post("/account", {"revoke": str(token.pk)}).status_code == 404
    assert responder.post("/account", {"revoke": str(token.pk)}).status_code == 302

    token.refresh_from_db()
    assert token.revoked_at is not None


def test_a_token_without_a_name_is_refused_on_the_page() -> None:
    answer = signed_in(f.person("responder")).post("/account", {"name": " "})

    assert answer.status_code == 422
    assert Token.objects.count() == 0


def test_a_token_is_made_by_who_signed_in_just_now_and_the_form_is_as_it_was_afterwards() -> None:
    user = f.person("responder")
    client = signed_in(user, fresh=False)
    answer = client.post("/account", {"name": "night job", "days": "365"})
    assert answer["Location"] == "/reauthenticate?next=%2Faccount"
    assert not Token.objects.exists()
    assert "night job" in asked(client, answer["Location"]).one("not-done-yet").text

    proved(client, user, time.time())
    page = client.get("/account").content.decode()
    assert 'value="night job"' in page
    assert '<option value="365" selected>' in page
    assert "rp_" in client.post("/account", {"name": "night job", "days": "365"}).content.decode()
    assert Token.objects.get().name == "night job"


def test_a_token_is_withdrawn_and_a_session_ended_without_a_fresh_sign_in() -> None:
    user = f.person("responder")
    signed_in(user).post("/account", {"name": "lost", "days": "30"})
    late = signed_in(user, fresh=False)
    assert late.post("/account", {"revoke": str(Token.objects.get().pk)})["Location"] == "/account"
    assert Token.objects.get().revoked_at is not None
    assert late.post("/account", {"end_others": "1"})["Location"] == "/account"


def test_settings_show_no_secret_not_even_its_reference(client: Client) -> None:
    f.workspace(token_ref="file:/somewhere/secret.token")
    client.force_login(f.person("admin"))

    page = text(client, "/settings")

    assert "dev-eu" in page
    assert "secret.token" not in page
