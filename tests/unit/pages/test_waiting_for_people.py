"""While a step of a stream by hand waits for a person, the page and its bar say what to do; afterwards they do not."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from recovery.models import Flow, Recovery, Step, Stream, StreamStart
from recovery.workflow import selectors
from tests import factories as f
from tests.checkpoint_builder import Built
from tests.pages import Element, asked

pytestmark = pytest.mark.django_db
START, STOP = "asked-start-stream", "asked-stop-stream"


def plain_stream(**values: Any) -> Flow:
    made = f.flow(f.pipeline(f.workspace("streams", kind="streams"), "orders"), "orders")
    Stream.objects.create(
        pipeline=made.pipeline, checkpoint="/data/orders", adopted_at=timezone.now(), **values
    )
    return made


def waiting(state: str = "", **start: Any) -> Recovery:
    """Its rerun has asked for a start, of which `state` was seen last."""
    flow = plain_stream()
    recovery = f.running(flow)
    StreamStart.objects.create(
        stream=flow.pipeline.stream, update_id="start-1", asked_at=timezone.now(), batch_before=2,
        **{"by_hand": True, **start},
    )  # fmt: skip
    watched = {"began": timezone.now().isoformat(), "state": state}
    Step.objects.filter(recovery=recovery, kind="rerun").update(
        result={"update_id": "start-1", "watched": watched}
    )
    return recovery


def codes(page: Element) -> set[str]:
    return {e.attributes["data-code"] for e in page.all(data_code=True)}


@pytest.mark.parametrize("state", ["", "WAITING_FOR_RESOURCES"])
@pytest.mark.parametrize("shown", ["run", "verify"])
def test_a_start_that_a_person_must_do_is_the_headline_of_the_page_and_of_its_bar(
    responder: Client, shown: str, state: str
) -> None:
    page = asked(responder, f"/recoveries/{waiting(state).pk}/{shown}")
    assert {START, "bar-start-stream"} <= codes(page)
    if shown == "run":
        assert page.value("step-rerun") == "attention"
        assert "stop-by-hand" in codes(page)
        assert not {"stop-does", "page-may-be-closed"} & codes(page)


@pytest.mark.parametrize(
    ("state", "start"),
    [
        ("RUNNING", {}),
        ("WAITING_FOR_RESOURCES", {"by_hand": False}),
        ("WAITING_FOR_RESOURCES", {"is_look": True}),
        ("WAITING_FOR_RESOURCES", {"ended": "COMPLETED"}),
    ],
)
def test_no_one_is_asked_for_a_start_that_was_seen_or_that_no_person_does(
    responder: Client, state: str, start: dict[str, Any]
) -> None:
    page = asked(responder, f"/recoveries/{waiting(state, **start).pk}/run")
    assert not {START, "bar-start-stream"} & codes(page)


@pytest.mark.parametrize(
    ("values", "result", "is_asked"),
    [
        ({}, {"stopped": "run-1"}, True),
        ({}, {}, False),
        ({"runner": "command", "stop": ["stop"]}, {"stopped": "run-1"}, False),
        ({"runner": "command"}, {"stopped": "run-1"}, True),
    ],
)
def test_a_stop_that_a_person_must_do_is_asked_for_on_its_page(
    responder: Client, values: dict[str, Any], result: dict[str, str], is_asked: bool
) -> None:
    recovery = f.opened(plain_stream(**values))
    Step.objects.create(
        recovery=recovery, ordinal=0, kind="stop", state="running", attempt=1, says="Stop",
        started_at=timezone.now(), heartbeat_at=timezone.now(), result=result,
    )  # fmt: skip
    page = asked(responder, f"/recoveries/{recovery.pk}/stop")
    assert ({STOP, "bar-stop-stream"} <= codes(page)) is is_asked
    assert bool({STOP, "bar-stop-stream"} & codes(page)) is is_asked


def test_a_stream_that_others_have_started_is_rolled_back_and_not_resumed(
    responder: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "rollback_refusal", lambda recovery: None)
    flow = plain_stream()
    checkpoint = Built(tmp_path / "orders").write()
    Stream.objects.update(checkpoint=str(checkpoint.root))
    recovery = f.into(f.running(flow, "revert"), "needs_attention")
    recovery.steps.filter(kind="rerun").update(state="failed", problem="Others have started it.", result={})

    page = asked(responder, f"/recoveries/{recovery.pk}/run")

    assert {"bar-roll-back", "started-by-others", "rollback", "others-may-write"} <= codes(page)
    assert "resume" not in codes(page)
    primary = page.primary()
    assert primary is not None
    assert primary["href"] == f"/recoveries/{recovery.pk}/rollback"
