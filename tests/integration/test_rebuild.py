"""A key that was changed, recovered by rebuild on a running instance: no row lost, none doubled, and proven."""

import json
from collections import Counter
from pathlib import Path

import pytest

from console.incident.making import Incident
from tests import tables
from tests.integration.test_first_recovery import checkpoint, place, recover
from tests.integration.test_kills import kill_when, resume, settled
from tests.integration.test_whole_table import KEY, criteria
from tests.stack import Stack

pytestmark = pytest.mark.spark


def with_changed_key(stack: Stack, name: str) -> Incident:
    incident = stack.incident(name)
    code = incident.good_code.replace('["customer_id", "sequence_num"]', f'["{KEY}"]')
    assert code != incident.good_code
    stack.client.import_file(incident.source, code.encode(), overwrite=True)
    return incident


def test_a_changed_key_goes_on_with_the_state_of_a_replay_and_every_row_is_there_once(stack: Stack) -> None:
    """Where rewind would double the twelve rows of before: `test_whole_table`. An independent reader counts."""
    incident = with_changed_key(stack, "rebuilt")
    done, answer = recover(stack, incident, "--strategy", "rebuild")
    assert (done, answer["state"]) == (0, "succeeded"), answer
    times = Counter(row[KEY] for row in tables.rows(place(stack, incident)))
    assert (sum(times.values()), len(times)) == (20, 20)
    forecast, measured, found = answer["forecast"], answer["measured"], criteria(answer)
    assert [forecast[name]["rows"] for name in ("lost", "doubled", "reread")] == [0, 0, 0]
    assert (measured["table_rows"], measured["doubled"], measured["lost"]) == (20, 0, 0)
    assert {code: one["ok"] for code, one in found.items() if one["ok"] is not True} == {}
    assert found["COUNTS_EQUAL_FORECAST"]["expected"] == {"new_rows": 8}
    assert found["EVERY_ROW_ONCE"]["measured"]["expected"] == 8
    scratch = stack.home / "storage" / incident.pipeline_id / "_rehearsals"
    assert not scratch.exists() or not list(scratch.iterdir())


MOMENTS = {
    "input": "{scratch}/input",
    "checkpoint": "{scratch}/checkpoint/offsets/0",
    "commit": "{scratch}/checkpoint/commits/0",
    "undo": "{flow}/.reprise-{recovery}.undo.json",
}


@pytest.mark.alone
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_worker_killed_within_the_reset_is_resumed_to_exactly_once(stack: Stack, moment: str) -> None:
    incident = with_changed_key(stack, f"killrebuild{moment}")
    code, out, err = stack.manage(
        "plan", incident.name, "--flow", incident.flow, "--strategy", "rebuild", "--json", token="responder"
    )
    assert code == 0, err
    recovery = json.loads(out)["recovery"]
    flow, held = (
        checkpoint(stack, incident).parent,
        stack.home / "storage" / incident.pipeline_id / "_rehearsals",
    )
    scratch = held / f"{incident.flow}-seed-{recovery}-1"
    seen = Path(MOMENTS[moment].format(scratch=scratch, flow=flow, recovery=recovery))
    kill_when(stack, recovery, seen.exists)
    if settled(stack, recovery)["state"] == "needs_attention":
        resume(stack, recovery)
    times = Counter(row[KEY] for row in tables.rows(place(stack, incident)))
    assert (sum(times.values()), len(times)) == (20, 20)
    assert sorted(p.name for p in flow.iterdir() if p.name.isdigit()) == ["0", "1"], (
        "the reset was done twice"
    )
    assert not list(held.iterdir())
