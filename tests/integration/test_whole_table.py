"""What a proof says of the whole table: repeats that were planned are rows that are there twice, and it says so."""

from collections import Counter
from typing import Any

import pytest

from tests import tables
from tests.integration.test_first_recovery import place, recover
from tests.stack import Stack

pytestmark = pytest.mark.spark

KEY = "sequence_num"
BACK = ("--strategy", "rewind", "--position", "0=earliest", "--accept-repeats", "--accept-loss", "--key", KEY)


def criteria(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["code"]: c for c in answer["verification"]}


def test_rows_that_a_rewind_repeats_as_accepted_are_told_as_doubled(stack: Stack) -> None:
    """Its key is changed, so that the state is built anew from the first file on; an independent reader counts."""
    incident = stack.incident("wholetable")
    code = incident.good_code.replace('["customer_id", "sequence_num"]', f'["{KEY}"]')
    assert code != incident.good_code
    stack.client.import_file(incident.source, code.encode(), overwrite=True)
    done, answer = recover(stack, incident, *BACK)
    assert (done, answer["state"]) == (0, "succeeded"), answer
    times = Counter(row[KEY] for row in tables.rows(place(stack, incident)))
    twice = sum(n - 1 for n in times.values())
    assert (sum(times.values()), len(times), twice) == (32, 20, 12)
    measured, found = answer["measured"], criteria(answer)
    assert (measured["table_rows"], measured["doubled"], measured["lost"]) == (32, twice, 0)
    assert (found["NO_KEY_TWICE"]["ok"], found["NO_KEY_TWICE"]["measured"]["rows"]) == (True, twice)
    assert found["ROWS_OF_BEFORE_UNTOUCHED"]["measured"]["rows"] == 12
    assert (measured["whole"]["input_keys"], measured["whole"]["absent"]) == (20, 0)
