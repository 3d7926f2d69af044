"""Going back in a flow that does not fail: asked for on its page, and told what to go back to on the next."""

import pytest
from django.test import Client

from recovery.models import Recovery
from tests.factories import positions as p
from tests.pages import refusal, shown
from tests.unit.workflow.rows import flow

pytestmark = pytest.mark.django_db


def test_a_healthy_flow_offers_to_go_back_and_asks_once_more(responder: Client) -> None:
    healthy = flow("ok")
    address = f"/flows/{healthy.pk}"
    page = shown(responder.get(address))
    assert page.one("go-back")

    answer = responder.post(address, {"act": "go-back"})
    assert refusal(answer) == "not_confirmed"
    assert not Recovery.objects.exists()

    answer = responder.post(address, {"act": "go-back", "confirm": "yes"})
    opened = Recovery.objects.get()
    assert answer["Location"] == f"/recoveries/{opened.pk}/diagnose"
    assert not shown(responder.get(address)).all(data_code="go-back")
    assert responder.get(answer["Location"]).status_code == 200


def test_what_a_replay_goes_back_to_is_chosen_on_the_strategy_page(responder: Client) -> None:
    of = p.at_positions()
    option = {"strategy": "replay", "blocked": "…", "blocker": {"code": "target_needed"}}
    options = [*of.facts["options"], {**of.facts["options"][0], **option}]
    Recovery.objects.filter(pk=of.pk).update(choices={}, facts={**of.facts, "options": options})
    address = f"/recoveries/{of.pk}/offset"
    page = shown(responder.get(address))
    assert page.all(id="st-replay", value="replay", disabled=False)
    assert page.one("needs-a-target")

    assert refusal(responder.post(address, {"strategy": "replay", "to": "yesterday"})) == "no_target"
    answer = responder.post(address, {"strategy": "replay", "to": "batch=4"})

    assert answer.status_code == 302
    of.refresh_from_db()
    assert (of.chosen.strategy, of.chosen.target.batch if of.chosen.target else None) == ("replay", 4)
    assert shown(responder.get(address)).all(id="to", value="batch=4")
