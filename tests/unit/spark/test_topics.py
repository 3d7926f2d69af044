"""By what records of a topic are told apart, and when that says nothing."""

import pytest

from recovery.spark.api import NAMED, WHOLE_ROW
from recovery.spark.replay import CannotReplay
from recovery.spark.secrets import values
from recovery.spark.topics import choose_key

PLAIN = "== Analyzed Logical Plan ==\nvalue: string\nProject [value#1]\n"
TIMED = "== Analyzed Logical Plan ==\nvalue: string\nProject [current_timestamp() AS value#1]\n"


@pytest.mark.parametrize(
    ("given", "text", "told"),
    [
        (None, PLAIN, (["key", "value"], [], WHOLE_ROW)),
        ([], PLAIN, (["key", "value"], [], WHOLE_ROW)),
        (["Key"], PLAIN, (["key"], ["key"], NAMED)),
        (["key"], TIMED, (["key"], ["key"], NAMED)),
    ],
    ids=["nothing named", "none named", "by key", "by key, whatever the value is"],
)
def test_records_are_told_apart_by_key_and_value_or_by_what_was_named(
    given: list[str] | None, text: str, told: tuple[list[str], list[str], str]
) -> None:
    assert choose_key(given, text) == told


@pytest.mark.parametrize(
    ("given", "text", "says"),
    [
        (["click_id"], PLAIN, "have no column click_id"),
        (None, TIMED, r"differs at every run \(current_timestamp\)"),
        (["key", "value"], TIMED, "differs at every run"),
    ],
)
def test_what_would_compare_unequal_whatever_was_sent_is_not_compared(
    given: list[str] | None, text: str, says: str
) -> None:
    with pytest.raises(CannotReplay, match=says):
        choose_key(given, text)


def test_of_a_sinks_options_only_the_topic_may_stand_in_a_sentence() -> None:
    options = {
        "topic": "clicks",
        "kafka.sasl.jaas.config": 'x required password="geheim";',
        "topicx": "other",
    }
    assert values(options) == {'x required password="geheim";', "geheim", "other"}
