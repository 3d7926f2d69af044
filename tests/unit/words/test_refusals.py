"""The words of each refusal, once: the act that is refused, its code, and the sentence that people read.

Everything else asks for the code (`tests/refusals.py`). Words may change: change them here.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.http import QueryDict

from console.forms import positions as forms
from recovery.contracts.positions import (
    InputBetween,
    Precision,
    ShownPart,
    ShownPlace,
    ShownRetention,
    ShownSource,
)
from recovery.errors import RepriseError
from recovery.people.roles import Actor, Role
from recovery.sources import comparing, kafka, position_requests
from recovery.sources.base import StartChoice
from recovery.sources.kafka_facts import KafkaFacts
from recovery.workflow import actions, broker
from tests import factories
from tests.factories import positions
from tests.refusals import refused
from tests.unit.workflow.rows import RESPONDER, VIEWER, choose, flow, plan, recovery

GRACE = Actor("grace", Role.RESPONDER, via="page")


@dataclass(frozen=True)
class Refusal:
    code: str
    words: str
    act: Callable[[], Any]


def source(index: str, kind: str, *can: str, parts: tuple[ShownPart, ...] = ()) -> ShownSource:
    """A source that can take these forms of wishes."""
    place, nothing = ShownPlace(label="", offset_json=None, parts=parts), InputBetween()
    return ShownSource(
        source=index, kind=kind, location="", committed=place, after=place, lost=nothing, reread=nothing,
        unread=nothing, precision=Precision.EXACT, reach=ShownRetention(), option=None, can=can, problem=None,
    )  # fmt: skip


def typed(**fields: str) -> Callable[[], Any]:
    """Fields of the page of start offsets, sent for one source that has a partition and one that has none."""
    part = ShownPart(name="orders-3", value="1200", label="")
    sources = [source("0", "kafka", "time", "parts", parts=(part,)), source("1", "files", "file")]
    post = QueryDict(mutable=True)
    post.update({name.replace("_", "."): value for name, value in fields.items()})
    return lambda: forms.read_wishes(post, sources, {})


FORMS = position_requests.FORMS
LINE = '{"orders":{"0":4}}'
TYPED = (
    Refusal(
        "no_position",
        f"'noon' names no position. Write one of: {FORMS}.",
        lambda: position_requests.parse_wish("noon"),
    ),
    Refusal(
        "no_time",
        "'noon' is no time. Write it as 2026-11-22T03:00:00Z.",
        lambda: position_requests.parse_wish("time=noon"),
    ),
    Refusal(
        "no_zone",
        "'2026-11-22T03:00' names no zone. Give a time with its zone: 2026-11-22T03:00:00Z.",
        lambda: position_requests.parse_wish("time=2026-11-22T03:00"),
    ),
    Refusal(
        "time_out_of_range",
        "'0001-01-01T00:00+14:00' is outside of the years 1 to 9999 of UTC.",
        lambda: position_requests.parse_wish("time=0001-01-01T00:00+14:00"),
    ),
    Refusal(
        "no_part",
        "'orders-1' sets no part. Write one a line, as orders-3 = 1200.",
        lambda: position_requests.from_lines("orders-1"),
    ),
    Refusal(
        "no_source_named",
        "'latest' names no source. Write it as 0=latest, or all=latest; a part of one as 0/orders-3=1200.",
        lambda: position_requests.by_source(["latest"]),
    ),
    Refusal(
        "two_positions",
        "Source 0 is given two positions. Name one.",
        lambda: position_requests.by_source(["0=latest", "0=earliest"]),
    ),
    Refusal(
        "rest_unclear",
        "Where does the rest of source 0 start? Parts go with a source by its number, and beside all= that source "
        "needs a start of its own, such as 0=committed.",
        lambda: position_requests.by_source(["all=latest", "0/orders-3=5"]),
    ),
    Refusal(
        "cannot_start_there",
        "Source 1 cannot start at time. Set the others one by one.",
        lambda: position_requests.for_all(
            position_requests.parse_wish("time=2026-11-22T03:00Z"), [source("1", "files", "file")]
        ),
    ),
    Refusal(
        "no_choice",
        "Source 0: choose what '12' is: a time, a version, a file, or by hand.",
        typed(value_0="12"),
    ),
    Refusal(
        "not_one_wish",
        "Name exactly one position of a Kafka source: a version, a time.",
        lambda: comparing.require_one_wish(StartChoice(), of="a Kafka source", can=("version", "at_ms")),
    ),
    Refusal(
        "not_by_this",
        "A Kafka source cannot be positioned by a file. It takes a time.",
        lambda: comparing.require_one_wish(StartChoice(file="x"), of="a Kafka source", can=("at_ms",)),
    ),
    Refusal(
        "not_asked",
        "Kafka was not asked, so it is not known what is still there. Ask it, then choose a position.",
        lambda: kafka.find_position(StartChoice(latest=True), LINE, KafkaFacts()),
    ),
    Refusal(
        "no_topic",
        "No topic of this source is there; make the topic again, or change the subscription.",
        lambda: kafka.find_position(StartChoice(latest=True), LINE, KafkaFacts(0, {}, {"orders": None})),
    ),
    Refusal(
        "time_not_asked",
        "Kafka was not asked for 1970-01-01 00:00:00.005 UTC; ask it with that time, then choose it.",
        lambda: kafka.find_position(StartChoice(at_ms=5), *positions.topic()),
    ),
    Refusal(
        "parts_left",
        "Nothing was read yet, so these have no position: crm.customers.changes-1, crm.customers.changes-2. Name one "
        "for the whole source.",
        lambda: kafka.find_position(
            StartChoice(parts={"crm.customers.changes-0": StartChoice(by_hand="500")}),
            None,
            positions.topic()[1],
        ),
    ),
    Refusal("no_value", "Source 0: write the time next to the choice.", typed(form_0="time")),
    Refusal(
        "no_parts",
        "A source of kind files has no parts that can be set one by one.",
        typed(parts_1="a = 2"),
    ),
)


@pytest.mark.parametrize("of", TYPED, ids=lambda of: of.code)
def test_what_is_typed_is_refused_in_these_words(of: Refusal) -> None:
    with refused(of.code, RepriseError) as refusal:
        of.act()
    assert refusal.value.sentence == of.words


def hand(of: Any, to: str, by: Actor = RESPONDER, **values: Any) -> None:
    actions.hand_over(recovery_id=of.pk, to=to, by=by, **values)


def paused_after_a_stop() -> None:
    row = recovery("running")
    actions.stop_run(recovery_id=row.pk, by=RESPONDER)
    actions.pause_run(recovery_id=row.pk, by=RESPONDER)


def sealing() -> None:
    row = recovery("planned", choices={"sealing": {"status": "working"}})
    plan(row, "stop")
    actions.edit_again(recovery_id=row.pk, by=RESPONDER)


def choosing(**choices: Any) -> Callable[[], None]:
    return lambda: choose(recovery("diagnosing", choices=choices), positions={"0": StartChoice(latest=True)})


ACTS = (
    Refusal(
        "healthy",
        "flow0 is healthy, so there is no failure to recover from. Nothing was opened. To go back in it anyway, "
        "name a strategy: top-up or deduplicate or replay or full-refresh.",
        lambda: actions.open_recovery(flow_id=flow("ok").pk, by=RESPONDER),
    ),
    Refusal(
        "no_plan",
        "R-1 has no plan in force. Seal one first.",
        lambda: actions.execute(recovery_id=recovery("planned").pk, by=RESPONDER),
    ),
    Refusal(
        "not_found",
        "There is no recovery R-1.",
        lambda: actions.execute(recovery_id=404, by=RESPONDER),
    ),
    Refusal(
        "wrong_state",
        "R-1 is planned; this can be done only while it is running.",
        lambda: actions.pause_run(recovery_id=recovery("planned").pk, by=RESPONDER),
    ),
    Refusal("stopping", "R-1 is already being stopped: no further step begins.", paused_after_a_stop),
    Refusal("sealing", "A plan of R-1 is being sealed. Wait until it is sealed, then take it back.", sealing),
    Refusal(
        "denied",
        "vic has role viewer, which may not open, plan and run recoveries. Ask a responder or an admin.",
        lambda: actions.pause_run(recovery_id=recovery("running").pk, by=VIEWER),
    ),
    Refusal(
        "no_positions",
        "Start positions can be chosen with continue or reread; revert is chosen.",
        choosing(strategy="revert"),
    ),
    Refusal(
        "not_looked",
        "The cost of these positions was not looked up. Look it up first, then choose them.",
        choosing(strategy="continue"),
    ),
    Refusal(
        "no_candidate",
        "R-1 cannot be handed to nobody: no person of that name may recover in development.",
        lambda: hand(recovery("planned"), "nobody"),
    ),
    Refusal(
        "no_reason",
        "Give a reason for taking R-1 over from ada.",
        lambda: hand(recovery("planned"), "grace", GRACE, reason=" "),
    ),
    Refusal(
        "not_owner",
        "Only somebody can hand R-1 over. Take it over first, with a reason.",
        lambda: hand(recovery("planned", owner="somebody"), "grace"),
    ),
    Refusal("same_owner", "R-1 is already ada's.", lambda: hand(recovery("planned"), "ada")),
    Refusal(
        "lost_race",
        "R-1 was grace's and is now ada's: someone else was faster. Look again.",
        lambda: hand(recovery("planned"), "grace", was="grace"),
    ),
)


@pytest.mark.django_db
@pytest.mark.parametrize("of", ACTS, ids=lambda of: of.code)
def test_an_act_is_refused_in_these_words(of: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)
    factories.person("responder", "ada")
    with refused(of.code, RepriseError) as refusal:
        of.act()
    said = re.sub(r"\bR-\d+", "R-1", refusal.value.sentence)
    assert re.sub(r"\bflow\d+", "flow0", said) == of.words


def test_the_words_of_a_code_stand_here_once() -> None:
    codes = [of.code for of in (*TYPED, *ACTS)]
    assert sorted(codes) == sorted(set(codes))
