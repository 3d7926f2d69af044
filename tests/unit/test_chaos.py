"""The kill harness itself: every kind of strike has its turn, and the page says what the runs did, no better."""

import errno
import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos import report, strikes
from tests.chaos.person import Outcome
from tests.chaos.strikes import DECK, Deck, Strike

ONE_DECK = sum(times for _, times in DECK)


def fits(deal: strikes.Deal) -> bool:
    return True


def dealt(seed: int, number: int, *without: str) -> list[strikes.Deal | None]:
    deck = Deck(random.Random(seed), without=without)
    return [deck.deal(fits) for _ in range(number)]


@pytest.mark.parametrize("seed", range(5))
def test_one_deck_deals_every_kind_of_strike_as_often_as_it_lies_in_it(seed: int) -> None:
    assert Counter(dealt(seed, ONE_DECK)) == dict(DECK)
    assert Counter(dealt(seed, 2 * ONE_DECK)) == {deal: 2 * times for deal, times in DECK}


def test_the_order_goes_by_the_seed_and_what_is_not_there_is_left_out_of_it() -> None:
    order = dealt(7, ONE_DECK)
    kept = [deal for deal in order if deal and deal[0] not in ("disk", "database")]

    assert dealt(7, ONE_DECK) == order != dealt(8, ONE_DECK)
    assert dealt(7, len(kept), "disk", "database") == kept


def test_a_strike_that_does_not_fit_now_keeps_its_turn() -> None:
    deck = Deck(random.Random(1))
    spared = [deck.deal(lambda deal: deal[0] != "spark") for _ in range(ONE_DECK)]
    after = [deck.deal(fits) for _ in range(3)]

    assert Counter(deal for deal in spared if deal and deal[0] == "spark") == {}
    assert {deal and deal[0] for deal in after} == {"spark"}


def test_nothing_is_dealt_where_nothing_fits_and_the_decks_do_not_pile_up() -> None:
    deck = Deck(random.Random(1))

    assert [deck.deal(lambda deal: False) for _ in range(9)] == [None] * 9
    assert Counter(deck.left) == dict(DECK)


def test_what_never_fits_does_not_keep_the_rest_from_its_turn() -> None:
    deck = Deck(random.Random(1))
    spared = [deck.deal(lambda deal: deal[0] != "worker") for _ in range(5 * ONE_DECK)]

    assert None not in spared
    assert {deal[0] for deal in spared if deal} == {victim for (victim, _), _ in DECK} - {"worker"}


def test_a_full_disk_is_filled_though_others_take_of_it_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system says what is free, and has less when it is asked for: what is left is asked anew."""
    frees = iter([3, 2, 0])
    asked = []

    class Held:
        f_frsize = 4096

        def __init__(self) -> None:
            self.f_bavail = next(frees)

    def allocate(file: int, begin: int, size: int) -> None:
        asked.append(size // 4096)
        if len(asked) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fstatvfs", lambda file: Held())
    monkeypatch.setattr(os, "posix_fallocate", allocate)
    with (tmp_path / "ballast").open("wb") as out:
        strikes.take_all(out.fileno())

    assert asked == [3, 2]


def run(seed: int, **outcome: int) -> report.Run:
    done = [Strike(0.0, "worker", "kill"), Strike(1.0, "disk", "full", 2.0)]
    ends = [Outcome("chaos1", "succeeded", 30.0, resumed=1), Outcome("chaos2", "succeeded", 40.0, **outcome)]
    return report.Run(
        seed, "SQLite", "2026-01-01T00:00:00+00:00", done, ends, {"200": 8, "503": 1, "none": 1}
    )


def test_the_page_adds_the_runs_up_and_a_run_that_went_on_takes_its_own_place(tmp_path: Path) -> None:
    page = tmp_path / "chaos.md"
    for one in (run(1), run(2), run(2)):
        report.keep(page, one.as_dict())
    kept = [json.loads(line) for line in (tmp_path / "chaos.jsonl").read_text().splitlines()]

    assert [one["seed"] for one in kept] == [1, 2]
    assert "| **all** | 4 | 4 | 4 | 2 | 0 | 0 | 2 | 50.0% | 40 s |" in page.read_text()
    assert "| kill worker | 2 |\n" in page.read_text()
    assert "| SQLite, seed 1 | 10 | 8 | 1 | 1 | 0 |" in page.read_text()


@pytest.mark.parametrize(
    ("what", "says"), [("lost", "rows lost"), ("doubled", "rows doubled"), ("double_resets", "double resets")]
)
def test_what_must_be_zero_is_added_up_and_makes_the_run_bad(what: str, says: str) -> None:
    bad = run(1, **{what: 3})

    assert bad.bad
    assert not run(1).bad
    assert f"| {says} | 6 |" in report.page([bad.as_dict(), bad.as_dict()])


def test_what_ended_a_run_early_and_a_chain_that_broke_are_said() -> None:
    cut, broken = run(1), run(2)
    cut.problems.append("AssertionError: The instance did not come back")
    broken.chain_breaks = 1
    said = report.page([cut.as_dict(), broken.as_dict()])

    assert (cut.bad, broken.bad) == (True, True)
    assert "| chain breaks | 1 |" in said
    assert "| instances that did not come back by themselves | 1 |" in said
    assert "- SQLite, seed 1: AssertionError: The instance did not come back" in said


@pytest.mark.parametrize(("strikes", "resumed", "bad"), [(100, 5, False), (100, 6, True), (10, 6, False)])
def test_more_than_one_resume_in_twenty_strikes_makes_the_run_bad(
    strikes: int, resumed: int, bad: bool
) -> None:
    made = run(1, resumed=resumed)
    made.strikes = [Strike(0.0, "worker", "kill")] * strikes
    made.outcomes = made.outcomes[1:]

    assert made.bad is bad
