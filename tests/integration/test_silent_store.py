"""A store that never answers takes no page but its own."""

from benchmarks.silent_store import measure


def test_ten_readers_of_a_silent_store_leave_the_sign_in_page_as_quick_as_it_is() -> None:
    found = measure(seconds=10)
    assert found.ratio < 10, "of medians: the readers' pages cost work, and hold no thread"
    assert found.longest < 20, "without deadlines the readers hold every thread for half a minute at a time"
    assert found.statuses == {200}
    assert found.pages > 30, "readers are told at once, again and again"
