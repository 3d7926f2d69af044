"""A number that is a bound carries its word wherever people read it: *at most*, *at least*, *about*."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from console.presenters import handover
from console.presenters import wizard as wizard_view
from console.templatetags.reprise import bounded_rows
from recovery.contracts.amounts import Amount, Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.positions import NextInput
from recovery.notify.subject import describe_forecast
from recovery.sinks import kafka, registry
from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, in_words, is_nothing
from recovery.sources import mapping
from recovery.sources.base import Distance
from recovery.strategies import empty
from tests.factories.plans import plan_contents

ROOT: Final = Path(__file__).resolve().parents[3]
BOUNDS: Final = [Bound.EXACT, Bound.AT_MOST, Bound.AT_LEAST, Bound.ESTIMATE]


def rows(bound: Bound) -> RowAmount:
    return RowAmount(rows=9, bound=bound)


def channel_text(bound: Bound) -> str:
    stored = {"rows": 9, "files": 0, "from": None, "to": None, "why": "", "exact": bound is Bound.EXACT}
    contents = plan_contents(forecast={"lost": {**stored, "bound": bound.value}})
    return handover._plan_text(SimpleNamespace(hash="4f9a1c03", contents=contents))


def message_text(bound: Bound) -> str:
    none = RowAmount(rows=0, bound=Bound.EXACT)
    forecast = Forecast(
        lost=rows(bound), doubled=none, reread=none, new_rows=None, table_after=None, state=""
    )
    return describe_forecast(forecast)


def dropped_text(bound: Bound) -> str:
    unread = Distance(rows=Amount(value=9, bound=bound))
    return mapping._describe_dropped(mapping.OldSource("1", "kafka", None, unread=unread)).says


PLACES: Final[dict[str, Callable[[Bound], str]]] = {
    "what a page shows": lambda bound: bounded_rows(rows(bound)),
    "the text for the channel": channel_text,
    "a message": message_text,
    "the risk of a sink": lambda bound: in_words(Amount(value=9, bound=bound)),
    "why an empty reset is blocked": lambda bound: empty._many(rows(bound)),
    "a source that was dropped": dropped_text,
}


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("place", PLACES)
def test_a_bound_stands_before_its_number(place: str, bound: Bound) -> None:
    words = {
        Bound.EXACT: "",
        Bound.AT_MOST: "at most ",
        Bound.AT_LEAST: "at least ",
        Bound.ESTIMATE: "about ",
    }
    before = re.search(r"(at most |at least |up to |about |)9\b", PLACES[place](bound))
    assert before is not None
    assert before[1] == words[bound]


@pytest.mark.parametrize(
    ("ahead", "bound"),
    [
        ({"rows": 9, "bound": Bound.AT_MOST}, "at most"),
        ({"rows": 9, "bound": Bound.EXACT, "exact": True}, "exact"),
        ({"rows": 9, "exact": True}, "exact"),
        ({"rows": 9}, "estimate"),
    ],
    ids=["a limit", "counted", "counted by an older release", "not counted by an older release"],
)
def test_what_waits_is_the_bound_that_the_source_gave(ahead: dict[str, Any], bound: str) -> None:
    assert wizard_view._ahead_text(NextInput(**ahead), is_files=False).rpartition(", ")[2] == bound


@pytest.mark.parametrize(
    ("amount", "certain"),
    [
        (Amount(value=0), True),
        (Amount(value=0, bound=Bound.AT_MOST), True),
        (Amount(value=0, bound=Bound.ESTIMATE), False),
        (Amount(value=0, bound=Bound.AT_LEAST), False),
        (Amount(value=0, bound=Bound.UNKNOWN), False),
        (Amount(value=1), False),
        (None, False),
    ],
)
def test_only_a_number_that_cannot_be_more_is_no_row(amount: Amount | None, certain: bool) -> None:
    assert is_nothing(amount) is certain
    assert (in_words(amount) == "no row") is certain


@pytest.mark.parametrize(
    "report",
    [
        SinkReport(kind="files", location="/t", head=3),
        SinkReport("delta", "/t", 3, heads={"q": 3}),
        SinkReport("kafka", "topic t", None, facts=kafka.KafkaSinkFacts(("t",))),
        SinkReport("foreach_batch", "f", None),
        SinkReport("unknown", "/t", None),
    ],
    ids=lambda report: report.kind,
)
def test_a_sink_promises_that_nothing_comes_twice_only_where_that_is_certain(report: SinkReport) -> None:
    sink = registry.sink_kind_of(report.kind)
    none, about_none = (
        sink.judge_risk(PlannedStart(4, reread=Distance(rows=Amount(value=0, bound=bound))), report)
        for bound in (Bound.EXACT, Bound.ESTIMATE)
    )
    assert "about 0 rows" in about_none.says.lower()
    assert "about 0 rows" not in none.says.lower()


@pytest.mark.parametrize(
    ("bound", "bad"),
    [(Bound.EXACT, False), (Bound.AT_MOST, False), (Bound.ESTIMATE, True), (Bound.AT_LEAST, True)],
)
def test_no_row_that_is_an_estimate_is_no_calm_number_of_a_forecast(bound: Bound, bad: bool) -> None:
    none = RowAmount(rows=0, bound=bound)
    assert wizard_view._forecast_number("lost", "Lost", none).bad is bad
    assert wizard_view._amount_cell(none, bad=True).bad is bad


def test_no_sentence_chooses_the_word_of_a_bound_by_itself() -> None:
    chosen = re.compile(r"""(?:""|''|"exact") if \w+(?:\.\w+)*\.exact else""")
    sources = [*(ROOT / "recovery").rglob("*.py"), *(ROOT / "console").rglob("*.py")]
    assert [path.name for path in sources if chosen.search(path.read_text())] == []
