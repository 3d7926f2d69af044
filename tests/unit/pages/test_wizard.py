"""The wizard through its pages: each step is saved, a refusal stands on the page, nothing typed is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client

from recovery.models import AuditEntry, Recovery, Step, Workspace
from recovery.workflow import broker
from tests import factories as f
from tests.pages import asked, parse, refusal, shown
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
    page = asked(responder, answer["Location"])
    assert "dropDuplicates" in page.one("evidence").text


def test_a_second_recovery_is_refused_on_the_flow_page_with_the_first_ones_name(responder: Client) -> None:
    first = f.opened()

    answer = responder.post(f"/flows/{first.flow_id}")

    assert (answer.status_code, refusal(answer)) == (409, "already_open")
    assert first.label in shown(answer).one("already_open").text


def test_a_healthy_flow_is_not_recovered_unless_somebody_confirms_that_they_go_back_in_it(
    responder: Client,
) -> None:
    flow = f.flow()

    forms = asked(responder, f"/flows/{flow.pk}").all("form", action=f"/flows/{flow.pk}")
    assert len(forms) == 1, "to go back in it, which is confirmed first"
    answer = responder.post(f"/flows/{flow.pk}")
    assert (answer.status_code, refusal(answer)) == (409, "healthy")
    assert Recovery.objects.count() == 0


def test_stopping_is_one_act_and_the_page_asks_until_it_is_read_back(responder: Client) -> None:
    recovery = f.opened()

    responder.post(f"/recoveries/{recovery.pk}/stop")

    assert Step.objects.get().kind == "stop"
    page = asked(responder, f"/recoveries/{recovery.pk}/stop")
    assert page.one("stopping")
    assert page.all(hx_trigger="every 1s")


def test_a_stopped_pipeline_is_said_with_what_was_read_back_and_is_not_asked_about_any_more(
    responder: Client,
) -> None:
    recovery = f.at_offset()
    page = asked(responder, f"/recoveries/{recovery.pk}/stop")

    assert page.one("stopped")
    assert recovery.steps.get(kind="stop").log[-1][1] in page.all(id="log")[0].text
    assert not page.all(hx_trigger=True)


def test_a_dead_broker_is_one_sentence_and_changes_nothing(
    responder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recovery.errors import Unreachable

    def dead() -> None:
        raise Unreachable("It does not answer.", code="broker_down")

    monkeypatch.setattr(broker, "check", dead)
    recovery = f.opened()

    answer = responder.post(f"/recoveries/{recovery.pk}/stop")

    assert (answer.status_code, refusal(answer)) == (409, "broker_down")
    assert Step.objects.count() == 0


def test_the_comparison_shows_every_strategy_with_its_numbers_and_the_blocked_one_with_its_reason(
    responder: Client,
) -> None:
    recovery = f.at_offset()
    page = asked(responder, f"/recoveries/{recovery.pk}/offset")

    assert all(page.all(id=f"st-{name}") for name in ("continue", "revert", "full-refresh", "empty"))
    assert not page.all(name="strategy", checked=True), "nobody answered whether the change was meant"
    assert page.one("say-whether-meant")
    assert page.all(id="st-empty", value="empty", disabled=True)
    reason = next(o["blocked"] for o in recovery.facts["options"] if o["strategy"] == "empty")
    assert page.value("blocked") == "empty"
    assert reason in page.one("blocked").text
    assert page.value("not-applicable") == "1"
    assert page.value("answer-do-nothing-yet") == "safe"
    assert {code for code in page.codes if code.startswith("turn-")} == {
        "turn-meant", "turn-mistake", "turn-not-sure",
    }  # fmt: skip


@pytest.mark.parametrize(("answer", "strategy"), [("yes", "continue"), ("no", "revert")])
def test_whether_the_change_was_meant_is_asked_once_and_sets_what_both_pages_recommend(
    responder: Client, answer: str, strategy: str
) -> None:
    recovery = f.at_offset()
    before = asked(responder, f"/recoveries/{recovery.pk}/diagnose")
    assert [b.attributes["value"] for b in before.all("button", name="meant")] == ["yes", "no", "unknown"]

    said = responder.post(f"/recoveries/{recovery.pk}/diagnose", {"meant": answer})

    assert said["Location"] == f"/recoveries/{recovery.pk}/diagnose"
    after = asked(responder, f"/recoveries/{recovery.pk}/diagnose")
    assert after.value("was-it-meant") == "answered"
    assert "Recommended" in after.one(f"advice-{strategy}").text
    compared = asked(responder, f"/recoveries/{recovery.pk}/offset")
    assert [e.attributes["value"] for e in compared.all(name="strategy", checked=True)] == [strategy]
    assert "say-whether-meant" not in compared.codes


@pytest.mark.parametrize(
    ("answer", "recommended", "turns"),
    [
        ("yes", "continue", {"mistake": "revert", "not-sure": "call the owner", "unread-input-gone": ""}),
        ("no", "revert", {"meant": "continue", "not-sure": "call the owner", "unread-input-gone": ""}),
        ("unknown", "", {"meant": "continue", "mistake": "revert"}),
    ],
)
def test_the_question_can_be_answered_where_the_strategies_are_compared(
    responder: Client, answer: str, recommended: str, turns: dict[str, str]
) -> None:
    recovery = f.at_offset()
    at = f"/recoveries/{recovery.pk}/offset"

    assert responder.post(at, {"act": "meant", "meant": answer})["Location"] == at

    page = asked(responder, at)
    assert page.value("was-it-meant") == "answered"
    found = {code: page.value(f"turn-{code}") for code in turns}
    assert found == turns
    if recommended:
        assert page.value("recommended-strategy") == recommended
    else:
        assert page.one("nothing-recommended")


def test_an_answer_that_is_none_is_refused(responder: Client) -> None:
    recovery = f.at_offset()
    answer = responder.post(f"/recoveries/{recovery.pk}/diagnose", {"meant": "perhaps"})
    assert refusal(answer) == "bad_choice"


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

    assert (answer.status_code, refusal(answer)) == (422, "blocked")
    assert shown(answer).all(id="key", value="customer_id")
    recovery.refresh_from_db()
    assert recovery.choices == {}


def test_counting_again_is_one_press_and_shows_that_it_goes_on(responder: Client) -> None:
    recovery = f.at_offset()

    responder.post(f"/recoveries/{recovery.pk}/offset", {"act": "facts"})

    assert asked(responder, f"/recoveries/{recovery.pk}/offset").one("counting")


def test_continue_needs_no_change_and_says_so(responder: Client, api: Api) -> None:
    page = text(responder, f"/recoveries/{f.at_patch().pk}/patch")

    assert parse(page).one("no-change-needed")
    assert "1 line removed" in page
    assert page.index("customers.py") < page.index("schema.py")


def test_revert_begins_with_the_code_of_the_last_good_update(responder: Client, api: Api) -> None:
    page = text(responder, f"/recoveries/{f.at_patch(strategy='revert').pk}/patch")

    assert parse(page).one("old-code-filled-in")
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
    assert refusal(answer) == "bad_choice"
    assert key in page
    assert 'maxlength="4000"' in page
    recovery.refresh_from_db()
    assert "strategy" not in recovery.choices


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"status": "valid", "says": "validate_only: valid."}, "ok"),
        ({"status": "invalid", "says": "[UNRESOLVED_COLUMN] no such column\nmore"}, "failed"),
        ({"status": "failed", "says": "No answer."}, "unknown"),
    ],
)
def test_the_answer_of_the_validation_is_shown_as_what_it_is(
    responder: Client, api: Api, told: dict[str, str], kind: str
) -> None:
    recovery = f.at_patch(choices=f.choices(validation=told))

    panel = asked(responder, f"/recoveries/{recovery.pk}/patch?part=validation")

    assert panel.value("validation") == kind
    assert told["says"].splitlines()[0] in panel.text
    assert not panel.all(hx_trigger=True)


def test_a_workspace_that_is_away_is_said_on_the_patch_page(responder: Client) -> None:
    page = text(responder, f"/recoveries/{f.at_patch().pk}/patch")

    assert "Nothing was changed." in page
    assert "<textarea" not in page


def test_sealing_shows_that_it_goes_on_and_a_refusal_with_the_way_out(responder: Client) -> None:
    recovery = f.at_review()

    responder.post(f"/recoveries/{recovery.pk}/review")
    assert asked(responder, f"/recoveries/{recovery.pk}/review").one("sealing")

    failed = {
        "status": "failed",
        "problem": "continue cannot run.",
        "code": "blocked",
    }
    Recovery.objects.update(choices=f.choices(patch={}, sealing=failed))
    page = asked(responder, f"/recoveries/{recovery.pk}/review")
    assert page.value("not-sealed") == "blocked"
    assert failed["problem"] in page.one("not-sealed").text
    assert not page.all(hx_trigger=True)


def test_a_sealed_plan_shows_its_hash_its_numbers_its_steps_and_one_primary_act(responder: Client) -> None:
    recovery = f.planned()

    page = asked(responder, f"/recoveries/{recovery.pk}/review")

    assert recovery.plans.get().hash in page.text
    assert "12 → 20" in page.one("grows").text
    assert page.one("numbering")
    assert sum("btn-primary" in e.attributes["class"].split() for e in page.all(class_=True)) == 1
    assert (page.primary() or {})["value"] == "execute"


def test_where_approvals_are_needed_the_plan_cannot_be_run_and_the_page_says_why(responder: Client) -> None:
    recovery = f.planned(f.incident("production"))

    page = asked(responder, f"/recoveries/{recovery.pk}/review")

    assert page.all(class_="band")
    assert page.one("bar-asks-for-votes")
    assert (page.primary() or {})["form"] == "ask"
    refused = responder.post(f"/recoveries/{recovery.pk}/run", {"hash": recovery.plans.get().hash})
    assert (refused.status_code, refusal(refused)) == (409, "needs_approval")


@pytest.mark.parametrize(
    ("choices", "answer"),
    [({"meant": "yes", "meant_by": "ada"}, "yes"), ({"meant": "no"}, "no"), ({}, None)],
    ids=["with who said so", "before that was kept", "no one was asked"],
)
def test_review_shows_whether_the_change_was_meant_and_who_said_so(
    responder: Client, choices: dict[str, str], answer: str | None
) -> None:
    made = f.planned()
    Recovery.objects.filter(pk=made.pk).update(choices={**made.choices, **choices})
    page = asked(responder, f"/recoveries/{made.pk}/review")
    assert [e.attributes["data-value"] for e in page.all("", data_code="asked-meant")] == [answer] * bool(
        answer
    )
    if answer:
        assert ("ada" in page.one("asked-meant").text) is ("meant_by" in choices)


def test_review_shows_the_groups_of_open_windows_and_when_they_would_be_written(responder: Client) -> None:
    page = asked(responder, f"/recoveries/{f.losing().pk}/review")
    assert [e.attributes["data-value"] for e in page.all("", data_code="window-more")] == ["1", "3", "3"]
    assert [e.text for e in page.all("", data_code="window-group")] == ["Berlin: count 14", "Lyon: count 5"]
    assert len(page.all("", data_code="window-waits")) == 3


def test_a_void_plan_says_what_moved_and_stays_void(responder: Client) -> None:
    recovery = f.void()
    page = asked(responder, f"/recoveries/{recovery.pk}/review")

    assert page.one("plan-void")
    assert "7d20b91c" in [e.text for e in page.all("del")]
    assert "03aa1f77" in [e.text for e in page.all("ins")]
    assert [f.attributes["action"] for f in page.all("form") if f.all(id="primary")] == [
        f"/recoveries/{recovery.pk}/review"
    ]
    assert "execute" not in page.acts()


def test_an_earlier_step_of_a_running_recovery_can_be_read_and_not_changed(responder: Client) -> None:
    recovery = f.running()

    assert asked(responder, f"/recoveries/{recovery.pk}/offset").one("bar-past")
    assert responder.post(f"/recoveries/{recovery.pk}/offset", {"strategy": "revert"}).status_code == 422
    assert AuditEntry.objects.filter(action="recovery.strategy", outcome="failed").count() == 1


def test_a_sealed_plan_is_taken_back_on_the_review_page_and_the_choices_stay(responder: Client) -> None:
    recovery = f.planned()

    assert "edit" in asked(responder, f"/recoveries/{recovery.pk}/review").acts()
    answer = responder.post(f"/recoveries/{recovery.pk}/review", {"act": "edit"})

    assert answer["Location"] == f"/recoveries/{recovery.pk}/review"
    recovery.refresh_from_db()
    assert (recovery.state, recovery.choices["strategy"]) == ("diagnosing", "continue")
    page = asked(responder, f"/recoveries/{recovery.pk}/review")
    assert page.one("plan-taken-back").links()[0] == f"/recoveries/{recovery.pk}/offset"
    assert "plan-void" not in page.codes


def test_who_may_not_recover_sees_why_a_plan_cannot_be_taken_back(client: Client) -> None:
    client.force_login(f.person("viewer"))

    assert asked(client, f"/recoveries/{f.planned().pk}/review").disabled("edit")


def test_a_plan_that_must_be_approved_elsewhere_can_still_be_taken_back(responder: Client) -> None:
    recovery = f.planned(f.incident("production"))

    assert "edit" in asked(responder, f"/recoveries/{recovery.pk}/review").acts()


def test_review_names_what_is_below_and_lets_it_be_left_out(responder: Client) -> None:
    made = f.review_below()
    address = f"/recoveries/{made.pk}/review"

    page = parse(text(responder, address))
    assert [e.attributes["data-value"] for e in page.all("tr", data_code="below-doubled")] == [
        f.BELOW[1]["dataset"]
    ]
    responder.post(address, {"act": "no-below"})
    made.refresh_from_db()
    assert made.choices["below"] == "left"
    assert parse(text(responder, address)).all("section", data_code="below-left")
    responder.post(address, {"act": "below"})
    made.refresh_from_db()
    assert "below" not in made.choices


@pytest.mark.parametrize("made", [f.review_below, f.planned], ids=["some are known", "none is known"])
def test_review_says_that_readers_outside_are_not_known(
    responder: Client, made: Callable[[], Recovery]
) -> None:
    """A program with a checkpoint of its own leaves no trace in the table that it reads."""
    page = parse(text(responder, f"/recoveries/{made().pk}/review"))
    assert len(page.all("p", data_code="readers-outside-not-known")) == 1


@pytest.mark.parametrize(
    ("counted", "choices", "rows"),
    [
        (None, {}, ["refreshed", "doubled"]),
        ("left_out", {}, []),
        (None, {"below": "left"}, []),
        ("left_out", {"below": "left"}, []),
    ],
)
def test_review_shows_what_becomes_of_what_is_below_only_as_counted_with_the_choice(
    responder: Client, counted: str | None, choices: dict[str, str], rows: list[str]
) -> None:
    made = f.review_below()
    for option in made.facts["options"]:
        if counted:
            below = option["forecast"]["downstream"]
            option["forecast"]["downstream"] = [{**below[0], "effect": "stale", "reason": counted}, below[1]]
    made.choices = {**made.choices, **choices}
    made.save()

    page = parse(text(responder, f"/recoveries/{made.pk}/review"))

    shown = [str(e.attributes.get("data-code")) for e in page.all("tr")]
    assert [c.removeprefix("below-") for c in shown if c.startswith("below-")] == rows
    assert bool(page.all("p", data_code="below-not-counted")) == (bool(counted) and not choices)


@pytest.mark.parametrize(("compared", "named"), [(True, []), (False, ["spark_catalog.crm.copy"])])
def test_a_proof_names_what_is_below_and_was_not_compared(
    responder: Client, compared: bool, named: list[str]
) -> None:
    made = f.verified()
    below = {
        "dataset": "spark_catalog.crm.copy",
        "status": "COMPLETED",
        "compared": compared,
        "not_compared": None if compared else "reads_stream",
    }
    made.measured = {**made.measured, "downstream": [below]}
    made.save()
    for page in ("verify", "report"):
        shown = parse(text(responder, f"/recoveries/{made.pk}/{page}"))
        notes = shown.all("", data_code="below-not-compared")
        assert [e.attributes["data-value"] for e in notes] == named
        if page == "report":
            assert ("copy (" in shown.one("closing").text) is bool(named)


def test_a_sealed_plan_and_its_proof_name_what_stays_behind(responder: Client) -> None:
    made = f.verified_below()

    review = parse(text(responder, f"/recoveries/{made.pk}/review"))
    verify = text(responder, f"/recoveries/{made.pk}/verify")

    assert [review.value(f"below-{b['effect']}") for b in f.BELOW] == [b["dataset"] for b in f.BELOW]
    carried = {e.attributes["data-value"] for e in review.all("", data_code="below-fewer")}
    assert carried == {"3", "not-known"}
    assert parse(verify).value("left-doubled") == "spark_catalog.crm.copy"
    assert 'data-code="left-refreshed"' not in verify
