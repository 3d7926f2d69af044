"""Single parts of a source are wished for in words, come back from JSON and from the command line as they were."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.contracts import codec
from recovery.errors import WrongUse
from recovery.sources import position_requests
from recovery.sources.base import StartChoice
from tests.refusals import refused

AT = 1795316400000
TIME = "time=2026-11-22T03:00:00Z"


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("1200", StartChoice(by_hand="1200")),
        ("0", StartChoice(by_hand="0")),
        ("earliest", StartChoice(earliest=True)),
        ("latest", StartChoice(latest=True)),
        (TIME, StartChoice(at_ms=AT)),
        ("committed", None),
    ],
)
def test_a_part_is_wished_for_in_the_words_that_come_back(text: str, wish: StartChoice | None) -> None:
    assert position_requests.of_part("orders-3", f" {text} ") == wish
    assert position_requests.text_of_part(wish) == text


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1.5", "version=3", "file=/in/a", 'json={"a":1}', "9" * 19, "٣"]
)
def test_what_is_no_position_of_a_part_is_refused_with_the_forms(text: str) -> None:
    with refused("no_position", WrongUse):
        position_requests.of_part("orders-3", text)
    with refused("no_zone", WrongUse):
        position_requests.of_part("orders-3", "time=2026-11-22T03:00:00")


@pytest.mark.parametrize("text", ["2026-11-22", "2026-11-22T00", "2026-11-22T00:00", "20261122T000000"])
def test_a_time_without_a_zone_is_answered_with_one_that_is_taken(text: str) -> None:
    with pytest.raises(WrongUse) as refusal:
        position_requests.parse_wish(f"time={text}")
    (offered,) = re.findall(r": (\S+Z)\.$", refusal.value.sentence)
    at_midnight = datetime(2026, 11, 22, tzinfo=UTC)
    assert position_requests.parse_wish(f"time={offered}").at_ms == at_midnight.timestamp() * 1000


GIVEN: dict[str, tuple[list[str], dict[str, StartChoice | None]]] = {
    "one part": (["0/orders-3=1200"], {"0": StartChoice(parts={"orders-3": StartChoice(by_hand="1200")})}),
    "a part at a time, the rest at the end": (
        ["0=latest", f"0/orders-3={TIME}"],
        {"0": StartChoice(latest=True, parts={"orders-3": StartChoice(at_ms=AT)})},
    ),
    "the part before its source": (
        ["0/orders-3=committed", "0=earliest"],
        {"0": StartChoice(earliest=True, parts={"orders-3": None})},
    ),
    "two sources": (
        ["0/a-1=5", "1=version=0", "0/a-2=latest"],
        {
            "0": StartChoice(parts={"a-1": StartChoice(by_hand="5"), "a-2": StartChoice(latest=True)}),
            "1": StartChoice(version=0),
        },
    ),
    "all, and one of its own": (
        ["all=latest", "0=committed", "0/a-1=5"],
        {"all": StartChoice(latest=True), "0": StartChoice(parts={"a-1": StartChoice(by_hand="5")})},
    ),
    "as committed in every part": (["0/a-1=committed"], {"0": None}),
}


@pytest.mark.parametrize("name", GIVEN)
def test_parts_are_given_beside_their_source(name: str) -> None:
    given, wanted = GIVEN[name]
    assert position_requests.by_source(given) == wanted


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["0/orders-3=1", "0/orders-3=2"], "Part orders-3 is given two positions"),
        (["0=latest", "0=earliest"], "Source 0 is given two positions"),
        (["0/=1"], "names no source"),
        (["/orders-3=1"], "names no source"),
        (["0/orders-3"], "a part of one as 0/orders-3=1200"),
        (["0/orders-3=version=2"], "is no position for orders-3"),
        (["all/orders-3=1"], "Where does the rest of source all start?"),
        (["all=latest", "1/orders-3=1"], "Where does the rest of source 1 start?"),
    ],
)
def test_what_leaves_open_where_something_starts_is_refused(given: list[str], says: str) -> None:
    with pytest.raises(WrongUse) as told:
        position_requests.by_source(given)
    assert says in told.value.sentence


PART = st.one_of(
    st.none(),
    st.builds(StartChoice, by_hand=st.integers(0, 10**18 - 1).map(str)),
    st.builds(StartChoice, at_ms=st.integers(0, 4 * 10**12)),
    st.sampled_from([StartChoice(earliest=True), StartChoice(latest=True)]),
)
WHOLE = st.one_of(
    st.builds(StartChoice, at_ms=st.integers(0, 4 * 10**12)),
    st.builds(StartChoice, version=st.integers(0, 10**18 - 1)),
    st.sampled_from(
        [StartChoice(earliest=True), StartChoice(latest=True), StartChoice(by_hand='{"a":{"0":1}}')]
    ),
)
NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}-[0-9]{1,4}", fullmatch=True)


@given(WHOLE, st.dictionaries(NAMES, PART, max_size=4))
def test_a_wish_comes_back_from_json_and_from_the_command_line(
    whole: StartChoice, parts: dict[str, Any]
) -> None:
    wish = StartChoice(**{**position_requests.as_dict(whole), "parts": parts})
    assert codec.read(StartChoice, position_requests.as_dict(wish)) == wish
    assert position_requests.by_source(position_requests.wish_arguments("0", wish)) == {"0": wish}


def test_parts_are_changed_one_by_one_and_taken_back() -> None:
    one = position_requests.with_parts(None, {"a-0": "5"})
    two = position_requests.with_parts(one, {"a-1": "latest"})
    assert two == StartChoice(parts={"a-0": StartChoice(by_hand="5"), "a-1": StartChoice(latest=True)})
    assert position_requests.with_parts(two, {"a-0": "committed"}) == StartChoice(
        parts={"a-1": StartChoice(latest=True)}
    )
    assert position_requests.with_parts(one, {"a-0": "committed"}) is None
    kept = position_requests.with_parts(StartChoice(earliest=True), {"a-0": "committed"})
    assert kept == StartChoice(earliest=True, parts={"a-0": None})
    assert kept is not None
    assert position_requests.wish_text(kept) == "earliest, a-0=committed"


@pytest.mark.parametrize("text", ["orders-3", "orders-3 =", "= 5"])
def test_a_line_that_sets_no_part_is_refused(text: str) -> None:
    with refused("no_part", WrongUse):
        position_requests.from_lines(text)


def test_parts_are_written_in_lines_too() -> None:
    assert position_requests.from_lines(f"a-0 = 5\r\n\n a-1={TIME}\n") == {"a-0": "5", "a-1": TIME}


def test_every_time_of_a_wish_is_told_once() -> None:
    wish = StartChoice(
        at_ms=5,
        parts={
            "a": StartChoice(at_ms=7),
            "b": None,
            "c": StartChoice(at_ms=5),
            "d": StartChoice(latest=True),
        },
    )
    assert wish.times == (5, 7)
