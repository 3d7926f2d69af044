"""The words of each code of a page, once: a page that shows it, the code, and what a person reads there.

Everything else asks for the code (`tests/pages.py`). Words may change: change them here. `…` stands for a time, a hash,
and for what follows that has a code of its own.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.test import Client

from recovery.models import Recovery
from recovery.workflow import selectors
from tests import factories as f
from tests.factories import positions as p
from tests.pages import asked

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Scene:
    """A recovery made for it, the page of it that is read, and the words of its codes."""

    name: str
    make: Callable[[], Recovery]
    page: str
    words: dict[str, str]


SCENES = (
    Scene(
        "not looked at yet",
        p.at_positions,
        "positions",
        {
            "not-looked": (
                "Nothing is looked up yet Reads each source's position and what it "
                "still holds. Without a choice, every source continues exactly where its last"
                " committed batch ended."
            ),
        },
    ),
    Scene(
        "a strategy without positions",
        lambda: p.at_positions(look=p.looked({}, []), strategy="revert"),
        "positions",
        {
            "takes-no-positions": (
                "There is nothing to choose here Only continue and reread can start elsewhere. "
                "Every other strategy starts where step 3 says."
            ),
        },
    ),
    Scene(
        "the sources are asked",
        p.look_working,
        "positions",
        {
            "looking": (
                "Reading the sources. Since …: their positions, what they still hold, and what "
                "the requested positions would cost. This chooses nothing. You can close this page."
            ),
        },
    ),
    Scene(
        "the look failed",
        p.look_failed,
        "positions",
        {
            "look-failed": (
                "Not looked up: Kafka at broker:9092 does not answer. Start it, or mend the "
                "address, then look again. Nothing was changed or chosen. Below: the result "
                "of the look before. Change what it names, then look again."
            ),
        },
    ),
    Scene(
        "as committed",
        p.at_committed,
        "positions",
        {
            "as-committed-exactly": (
                "Chosen: every source goes on where its last committed batch ended. This loses "
                "nothing and reads nothing twice."
            ),
        },
    ),
    Scene(
        "at a time",
        p.at_a_time,
        "positions",
        {
            "loses-rows": (
                "Rows would be left out Source 0: 652 rows never read I accept this loss: "
                "Source 0: 652 rows never read"
            ),
        },
    ),
    Scene(
        "rows are gone",
        lambda: p.at_positions(look=p.looked({}, [p.kafka_source(gone=1)])),
        "positions",
        {
            "doubts": (
                "Whether every row is read once from there is not certain Source 0: Partition 0"
                " of crm.customers.changes begins at 540: after the position offsets 500 to 539"
                ' are gone. With failOnDataLoss "true", the default, Spark stops where records '
                'are gone between a position and the first one that is kept; with "false" it '
                "goes on silently."
            ),
            "as-committed": ("Chosen: every source goes on where its last committed batch ended."),
        },
    ),
    Scene(
        "the earliest was chosen",
        p.at_earliest_chosen,
        "positions",
        {
            "chosen": ("Chosen: source 0 at earliest; all others where they were committed."),
        },
    ),
    Scene(
        "a thousand partitions",
        p.with_many,
        "positions",
        {
            "parts-hidden": (
                "949 more parts are not listed. Show those whose name contains a text, or every part, above."
            ),
            "forward": ("What is between is never read."),
        },
    ),
    Scene(
        "other sources",
        p.other_sources,
        "positions",
        {
            "start-not-chosen": (
                "Source 1 (orders) is new: nothing was read of it. Choose where it starts: the "
                "earliest reads all its rows, the latest none that are there now. Nothing is "
                "chosen yet: choose its start below."
            ),
        },
    ),
    Scene(
        "how far to go back",
        lambda: p.at_committed(strategy="rewind"),
        "positions",
        {
            "how-far-not-chosen": (
                "Not chosen yet: how far to go back. The state is built from what is read "
                "again, so it has to reach behind the oldest row behind the state."
            ),
            "why-not": (
                "Say at a source how far to go back, and look up what this costs. Then choose it here."
            ),
        },
    ),
    Scene(
        "not every source takes a time",
        lambda: p.at_positions(look=p.looked({}, [p.kafka_source(), p.unknown_source()])),
        "positions",
        {
            "not-all-take-time": (
                "Not every source here can start at a time. Set those that can one by one."
            ),
        },
    ),
    Scene(
        "strategies compared",
        f.at_offset,
        "offset",
        {
            "blocked": (
                "It would silently lose 8 rows: The table's log already has batches 0 "
                "to 2; it silently skips new batches of those numbers."
            ),
            "not-applicable": ("1 more does not fit here…"),
        },
    ),
    Scene(
        "a stopped pipeline",
        f.at_offset,
        "stop",
        {
            "stopped": (
                "No update of this pipeline is active. Update u-4 was active; read back, it is "
                "CANCELED. It took 1.8 s. Read back …, …."
            ),
        },
    ),
    Scene(
        "rows would be lost",
        f.to_accept,
        "review",
        {
            "loses_rows": (
                "Blocker: Rows would be lost, and that is not accepted. 9 groups of windows that end after "
                "2026-11-22 19:04:10.000 UTC, the watermark, are in the state of operator 0 and in no table. I accept "
                "that 9 rows would be lost. loses_rows · --accept-loss"
            ),
            "bar-asks-to-accept": (
                "Seals a plan that loses rows, or may. Possible once that is accepted above. Nothing runs before you "
                "say so.…"
            ),
        },
    ),
    Scene(
        "a loss that was accepted",
        f.losing,
        "review",
        {
            "accepted-loss": (
                "Accepted by responder: 9 rows would be lost. “The windows are counted by hand.”"
            ),
        },
    ),
    Scene(
        "sealed",
        f.planned,
        "review",
        {
            "grows": ("8 new rows, 3 files waiting. Table 12 → 20 rows."),
            "numbering": ("The first new batch is 3; new query id; state dropped (12 keys)."),
        },
    ),
    Scene(
        "void",
        f.void,
        "review",
        {
            "plan-void": (
                "Plan … is void: it no longer holds. "
                "/Workspace/customers/transformations/customers.py was edited since the plan "
                "was made. Nothing was changed by the plan. Void stays void, even if the old "
                "state comes back."
            ),
        },
    ),
    Scene(
        "votes are needed",
        lambda: f.planned(f.incident("production")),
        "review",
        {
            "bar-asks-for-votes": (
                "Asks 0 people for 2 votes on plan …. Nothing runs until you start it "
                "afterwards. The flow stays stopped.…"
            ),
        },
    ),
    Scene(
        "votes are awaited",
        f.asked,
        "review",
        {
            "bar-waits-for-votes": (
                "Waits for approval; nothing runs. 2 more approvals of 2 needed in production. "
                "The request ends at ….…"
            ),
        },
    ),
    Scene(
        "the name is asked for",
        f.approved,
        "review",
        {
            "bar-asks-for-the-name": (
                "Runs 5 steps in production. Until batch 3 is committed: the new version is "
                "renamed away and the old one is in use again. Asks you to type the flow's name"
                " first.…"
            ),
        },
    ),
    Scene(
        "an earlier step",
        f.running,
        "offset",
        {
            "bar-past": ("R-1: running. What this step decided can no longer be changed.…"),
        },
    ),
    Scene(
        "running",
        f.running,
        "run",
        {
            "page-may-be-closed": (
                "You may close this page. The recovery continues, and anyone with this address "
                "sees the same. Last sign of life …."
            ),
            "step-runs": ("Not while a step runs."),
            "stop-does": (
                "Stops its update and begins no further step. What is done stays done; the run "
                "can be resumed."
            ),
            "pause-does": ("Lets the running step and its update end, and begins no other step."),
        },
    ),
    Scene(
        "unknown",
        f.unknown,
        "run",
        {
            "end-not-seen": (
                "What happened The end of Rerun was not seen Its worker (host:4711) has given no sign of"
                " life since …. It may have gone on without a worker. That is not known, so it "
                "is not called failed."
            ),
        },
    ),
    Scene(
        "a failed step",
        f.failed_step,
        "run",
        {
            "step-failed": (
                "What happened Reset flow failed There is no space left in the checkpoint's "
                "storage. Free some, then resume."
            ),
            "never-skipped": (
                "2 Skip Reset flow Step seed is never skipped. The update would start on the "
                "checkpoint that failed. Not possible"
            ),
        },
    ),
    Scene(
        "halted",
        f.halted,
        "run",
        {
            "run-stopped": (
                "What happened The run was stopped before Rerun responder stopped the run "
                "before step rerun. That step and those after it did not begin."
            ),
        },
    ),
    Scene(
        "proven",
        f.verified,
        "verify",
        {
            "proven": (
                "8 new rows are in the table once; 12 earlier rows untouched. 8 of 8 criteria hold, "
                "measured on Spark in a fresh session. They were fixed in the plan before "
                "anything ran. Measured …. Plan …."
            ),
        },
    ),
    Scene(
        "proven with repeats",
        f.repeated,
        "verify",
        {
            "proven-as-accepted": (
                "8 new rows are in the table; 12 earlier rows untouched. 6 rows repeat one that was there, as "
                "accepted. 8 of 8 criteria hold, measured on Spark in a fresh session. They were fixed in the plan "
                "before anything ran. responder accepted: 6 rows would be in the table twice. “Twice is better than "
                "missing.” Measured …. Plan …."
            ),
            "whole-doubled": "6 rows repeat a key of the table.",
            "whole-gone": "1 input file is gone, so what was read of it could not be compared.",
            "readers-of-repeats": "What readers made of the 6 rows that are there again",
            "readers-outside-not-known": (
                "Readers outside of the registered workspaces programs of their own, notebooks, reports"
            ),
        },
    ),
    Scene(
        "proven, and below",
        f.verified_below,
        "verify",
        {
            "table-agrees": "customers view 9 rows 9 rows Agrees",
            "table-not-compared": "sums view not known not counted Not compared",
            "rows-below": "Whether the rows of sums (defined in SQL) are right its update is COMPLETED",
        },
    ),
    Scene(
        "proven within limits",
        f.within_limits,
        "verify",
        {
            "bounded-grouping": (
                "The keys of the whole table were not counted, so repeats of long ago are not known. Data files to "
                "read: 9,000,000,000 bytes; the limit is 134,217,728 (REPRISE_GROUPING_BYTES)."
            ),
        },
    ),
    Scene(
        "not proven",
        f.not_proven,
        "verify",
        {
            "not-proven": (
                "2 expected rows are not in the table. Lost: 0 rows forecast, 2 rows measured. 6 of 8 criteria hold, "
                "measured on Spark in a fresh session. They were fixed in the plan before anything ran. R-1 stays"
                " open. Measured …. Plan …."
            ),
            "forecast-wrong": ("The forecast was wrong."),
        },
    ),
    Scene(
        "ended without proof",
        f.unproven,
        "run",
        {
            "unproven": (
                "Ended without proof. When last measured, not proven were: EVERY_ROW_ONCE, "
                "COUNTS_EQUAL_FORECAST. Step verify was skipped by responder: Two rows were "
                "mended by hand."
            ),
        },
    ),
    Scene(
        "a proof is given up",
        f.not_proven,
        "skip",
        {
            "skip-verify": (
                "It changes no checkpoint, no code and no table. You give up the proof, which every"
                " page shows. The recovery ends as unproven, never as succeeded. Pages, "
                "commands, messages and the evidence pack say that it was skipped, by whom and "
                "why."
            ),
        },
    ),
    Scene(
        "emptying is asked once more",
        lambda: f.planned(strategy="full-refresh"),
        "run/confirm",
        {
            "full-refresh": ("Empty 1 table in development and read everything again?"),
            "doubled": (
                "doubled: 1 row (exact). Rows that the old code had left out come back: repeats"
                " that dropDuplicates had removed."
            ),
        },
    ),
    Scene(
        "broken glass",
        f.glass,
        "run",
        {
            "broken-glass": (
                "Run by break-glass, without enough votes. responder, …: “The export reads the "
                "view at 06:00 UTC and nobody answers.” What stood against it: Environment "
                "staging asks for 1 approval by other people, and nobody has asked them about "
                "it yet. Holds until …; no further step begins after it. Others review it in "
                "the audit log."
            ),
        },
    ),
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_code_is_said_in_these_words(
    responder: Client, monkeypatch: pytest.MonkeyPatch, scene: Scene
) -> None:
    monkeypatch.setattr(selectors, "rollback_refusal", lambda recovery: None)
    page = asked(responder, f"/recoveries/{scene.make().pk}/{scene.page}")

    for code, words in scene.words.items():
        said = re.sub(r"\bR-\d+", "R-1", page.all(data_code=code)[0].text)
        assert re.fullmatch(re.escape(words).replace("…", ".+"), said), f"{code}: {said}"


def test_the_words_of_a_code_stand_here_once() -> None:
    codes = [code for scene in SCENES for code in scene.words]
    assert sorted(codes) == sorted(set(codes))
