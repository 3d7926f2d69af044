"""A key that was changed, and state that was lost, recovered by rebuild on a running instance, and proven."""

import json
from collections import Counter
from pathlib import Path

import pytest

from console.incident.making import Incident
from tests import tables
from tests.damages.hands import remove
from tests.integration.test_first_recovery import checkpoint, held, place, recover, tree, wanted
from tests.integration.test_kills import kill_when, resume, settled
from tests.integration.test_repair import damaged
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


def test_state_files_that_are_lost_are_built_again_and_a_repeat_stays_dropped(stack: Stack) -> None:
    """The code is as it was, so the state of a replay is the one that was lost. Where it cannot be mended: `repair`."""
    incident, lost = damaged(stack, "rebuiltlost", lambda c: remove(c / "state/0/1"))
    before = tree(lost)
    done, answer = recover(stack, incident, "--strategy", "rebuild")
    assert (done, answer["state"]) == (0, "succeeded"), answer
    assert held(stack, incident) == wanted(incident), "the repeat came in, or a row is lost or doubled"
    assert [answer["forecast"][name]["rows"] for name in ("lost", "doubled", "reread")] == [0, 0, 0]
    assert (answer["measured"]["doubled"], answer["measured"]["lost"]) == (0, 0)
    assert [c["code"] for c in answer["verification"] if c["ok"] is not True] == []
    assert tree(lost) == before, "the old version was touched"


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
    flow = checkpoint(stack, incident).parent
    rehearsals = stack.home / "storage" / incident.pipeline_id / "_rehearsals"
    scratch = rehearsals / f"{incident.flow}-seed-{recovery}-1"
    seen = Path(MOMENTS[moment].format(scratch=scratch, flow=flow, recovery=recovery))
    kill_when(stack, recovery, seen.exists)
    if settled(stack, recovery)["state"] == "needs_attention":
        resume(stack, recovery)
    times = Counter(row[KEY] for row in tables.rows(place(stack, incident)))
    assert (sum(times.values()), len(times)) == (20, 20)
    assert sorted(p.name for p in flow.iterdir() if p.name.isdigit()) == ["0", "1"], (
        "the reset was done twice"
    )
    assert not list(rehearsals.iterdir())
