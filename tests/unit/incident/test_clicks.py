"""The second incident's clicks and source: the numbers that the guide tells, and the edit that Spark refuses."""

import ast
import difflib
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from console.incident.clicks import PARTITIONS, Click, list_clicks, make_click, write_clicks
from console.incident.clicks_definition import EDITED, GOOD, write_definition
from recovery.errors import Unreachable
from tests.refusals import refused

DELAY, MINUTE = timedelta(minutes=2), timedelta(minutes=1)


def at(one: Click) -> datetime:
    return datetime.strptime(one["at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def minute(one: Click) -> datetime:
    return at(one).replace(second=0)


def test_the_demo_has_the_numbers_that_the_guide_tells() -> None:
    coming = list_clicks()

    assert [len(batch) for batch in coming.good] == [150, 120]
    assert (len(coming.processed()), len(coming.waiting)) == (270, 90)
    assert [c["click_id"] for c in coming.all()] == list(range(1, 361))
    assert list_clicks() == coming


def test_the_clicks_of_open_minutes_are_those_that_dropping_the_state_would_lose() -> None:
    """As Spark counts: a minute is closed once the watermark, after all that was read, is behind its end."""
    coming = list_clicks()
    watermark = max(at(c) for c in coming.processed()) - DELAY

    closed = {minute(c) for c in coming.processed() if minute(c) + MINUTE <= watermark}
    still_open = [c for c in coming.processed() if minute(c) not in closed]

    assert len(closed) == 6
    assert len({(minute(c), c["page"]) for c in coming.processed() if minute(c) in closed}) == 30
    assert len(still_open) == 88


def test_no_click_is_too_late_for_the_watermark_and_some_come_out_of_order() -> None:
    seen, watermark, out_of_order = datetime.min.replace(tzinfo=UTC), None, 0
    for batch in (*list_clicks().good, list_clicks().waiting):
        for one in batch:
            assert watermark is None or minute(one) + MINUTE > watermark
            out_of_order += at(one) < seen
            seen = max(seen, at(one))
        watermark = seen - DELAY
    assert out_of_order == 36


def test_every_partition_holds_every_page_and_every_country() -> None:
    for partition in range(PARTITIONS):
        there = [c for c in list_clicks().all() if c["click_id"] % PARTITIONS == partition]
        assert len(there) == 120
        assert len(Counter((c["page"], c["country"]) for c in there)) == 15


def test_the_edit_groups_by_one_more_column_and_changes_nothing_else() -> None:
    good, edited = (
        write_definition(table="clicks", servers="127.0.0.1:9", topic="clicks", steps=steps)
        for steps in (GOOD, EDITED)
    )

    ast.parse(edited)
    changed = [
        line
        for line in difflib.unified_diff(good.splitlines(), edited.splitlines(), n=0)
        if line[0] in "+-" and line[1] == " "
    ]
    assert len(changed) == 4
    assert [line[1:].replace('"page", "country"', '"page"') for line in changed if line[0] == "+"] == [
        line[1:] for line in changed if line[0] == "-"
    ]


def test_without_steps_the_stream_of_clicks_itself_is_written() -> None:
    text = write_definition(table="raw", servers="127.0.0.1:9", topic="clicks", steps="")

    ast.parse(text)
    assert text.endswith('        .select("click.*")\n    )\n')


def test_a_broker_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.incident.clicks.SECONDS", 1)

    with refused("broker_refused", Unreachable, names=("127.0.0.1:1",)):
        write_clicks("127.0.0.1:1", "clicks", [make_click(1)])
