"""A store that gives no answer is left alone, tried by one, and asked again once it answers."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.core.cache import cache
from django.utils import timezone

from recovery import breaker
from recovery.breaker import FIRST_PAUSE, LONGEST_PAUSE, SharedBreaker, silence_of
from recovery.checkpoints.access import PATIENCE
from recovery.errors import Unreachable

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
STORE = "s3://bucket at store.example"


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    cache.clear()


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock to so many seconds after noon."""

    def set_to(seconds: float) -> None:
        monkeypatch.setattr(timezone, "now", lambda: datetime.fromtimestamp(NOON + seconds, UTC))

    set_to(0)
    return set_to


def is_left_alone(store: str = STORE) -> bool:
    try:
        SharedBreaker().admit_request(store)
    except Unreachable as refusal:
        return refusal.code == "store_silent"
    return False


def test_a_store_that_answers_is_asked_without_a_trial() -> None:
    assert SharedBreaker().admit_request(STORE) is False


def test_a_silent_store_is_left_alone_for_a_pause_and_no_other_store_is(
    set_clock: Callable[[float], None],
) -> None:
    SharedBreaker().note_silence(STORE)

    set_clock(FIRST_PAUSE - 1)
    assert is_left_alone()
    assert not is_left_alone("s3://another")


def test_after_the_pause_one_request_tries_the_store_and_the_others_wait(
    set_clock: Callable[[float], None],
) -> None:
    SharedBreaker().note_silence(STORE)
    set_clock(FIRST_PAUSE)

    assert SharedBreaker().admit_request(STORE) is True
    assert is_left_alone()


def test_an_answer_lets_everybody_ask_again(set_clock: Callable[[float], None]) -> None:
    SharedBreaker().note_silence(STORE)
    set_clock(FIRST_PAUSE)
    SharedBreaker().admit_request(STORE)

    SharedBreaker().note_answer(STORE)

    assert silence_of(STORE) is None
    assert SharedBreaker().admit_request(STORE) is False


def test_each_silence_after_a_pause_doubles_it_up_to_the_longest_and_keeps_its_beginning(
    set_clock: Callable[[float], None],
) -> None:
    pauses, now = [], 0.0
    for _ in range(5):
        set_clock(now)
        SharedBreaker().note_silence(STORE)
        silence = silence_of(STORE)
        assert silence is not None
        pauses.append(silence.pause)
        now = silence.until - NOON

    assert pauses == [15.0, 30.0, 60.0, 120.0, LONGEST_PAUSE]
    assert silence.since == NOON - PATIENCE


def test_requests_that_were_under_way_count_as_one_silence(set_clock: Callable[[float], None]) -> None:
    SharedBreaker().note_silence(STORE)
    first = silence_of(STORE)
    set_clock(2)
    SharedBreaker().note_silence(STORE)

    assert silence_of(STORE) == first


@pytest.mark.parametrize(
    "kept", ["text", {"since": 1.0}, {"since": 1.0, "until": 2.0, "pause": 3.0, "new": 4}]
)
def test_what_another_version_wrote_is_no_silence(kept: object) -> None:
    cache.set(breaker._key(STORE), kept)

    assert silence_of(STORE) is None
    assert not is_left_alone()
