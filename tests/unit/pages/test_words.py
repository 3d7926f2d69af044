"""Numbers with units, times with zones, statuses with words."""

from datetime import UTC, datetime, timedelta

import pytest

from console.presenters import status, words
from console.templatetags import reprise

NOW = datetime(2026, 11, 21, 3, 12, 40, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0 rows"), (1, "1 row"), (1204880, "1,204,880 rows"), (None, "unknown rows")]
)
def test_a_count_carries_its_unit_and_what_is_not_known_is_never_zero(value: int | None, said: str) -> None:
    assert words.format_count(value, "row") == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 B"),
        (702, "702 B"),
        (1945, "1.9 KiB"),
        (90112, "88 KiB"),
        (5 * 1024**4, "5.0 TiB"),
        (None, "unknown size"),
    ],
)
def test_a_size_is_said_in_its_largest_unit(value: int | None, said: str) -> None:
    assert words.format_size(value) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0.0 s"), (0.04, "under 0.1 s"),
     (1.84, "1.8 s"), (12, "12 s"), (250, "4 min 10 s"), (4440, "1 h 14 min"), (180000, "2 d 2 h"),
     (3600, "1 h"), (None, "unknown")],
)  # fmt: skip
def test_a_duration_has_at_most_two_parts(seconds: float | None, said: str) -> None:
    assert words.format_duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (NOW, "03:12:40 UTC"),
        ("2026-11-21T01:02:03+00:00", "01:02:03 UTC"),
        ("2026-11-21T02:02:03+01:00", "01:02:03 UTC"),
        ("2026-11-20T23:59:59Z", "20 Nov 2026, 23:59:59 UTC"),
        (1795230000000, "20 Nov 2026, 23:00:00 UTC"),
        ("nonsense", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_time_is_absolute_with_its_zone_and_names_another_day(value: object, said: str) -> None:
    if isinstance(value, int):
        said = words.format_clock(datetime.fromtimestamp(value / 1000, UTC), NOW)
    assert words.format_clock(value, NOW) == said


@pytest.mark.parametrize(
    ("back", "said"),
    [
        (1, "just now"),
        (34, "34 s ago"),
        (61, "1 min ago"),
        (4441, "1 h 14 min ago"),
        (90000, "1 d 1 h ago"),
        (-200, "in 3 min"),
    ],
)
def test_a_relative_time_is_as_coarse_as_people_say_it(back: int, said: str) -> None:
    assert words.format_ago(NOW - timedelta(seconds=back), NOW) == said


def test_a_state_that_nobody_knows_is_shown_as_unknown_under_its_own_name() -> None:
    assert status.state_badge(status.FLOW, "half_open") == status.Badge("unknown", "Half open")


def test_dots_always_have_five_places_and_say_them_in_words() -> None:
    dots = status.update_dots(["ok", "failed", "mystery"])

    assert dots.kinds == ("none", "none", "ok", "failed", "unknown")
    assert dots.label == "Last 5 updates, oldest first: no update, no update, ok, failed, unknown"


def test_every_status_has_a_shape_in_the_sprite() -> None:
    from django.template.loader import render_to_string

    sprite = render_to_string("_components/sprite.html")
    tables = (
        status.FLOW,
        status.RECOVERY,
        status.STEP,
        status.OUTCOME,
        status.LEVEL,
        status.SEVERITY,
        status.UPDATE,
    )
    kinds = {b.kind for table in tables for b in table.values()}
    assert {k for k in kinds if f'id="s-{k}"' not in sprite} == set()
    assert {k for k in status.DOT_WORDS if f'id="d-{k}"' not in sprite} == set()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Put `dropDuplicates` back.", "Put <code>dropDuplicates</code> back."),
        ("`a` or `b`", "<code>a</code> or <code>b</code>"),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("<i>no</i> & `x`", "&lt;i&gt;no&lt;/i&gt; &amp; <code>x</code>"),
        ("one ` alone", "one ` alone"),
        ("``", "``"),
    ],
)
def test_code_in_a_sentence_is_shown_as_code_and_nothing_else_is_markup(text: str, shown: str) -> None:
    assert reprise.codes(text) == shown


def test_a_path_in_a_sentence_may_break_and_numbers_and_labels_may_not() -> None:
    rest = " by R-1, 1.9 KiB"
    assert reprise.paths(f"<b>/data/in_1{rest}") == f"&lt;b&gt;/<wbr>data/<wbr>in_<wbr>1{rest}"
