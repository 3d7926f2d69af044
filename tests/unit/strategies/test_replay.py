"""replay: what it goes back to, what it promises, and what stands in its way."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.report import StateOperator
from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.contracts.steps import RestoreArgs, SeedArgs
from recovery.contracts.target import ReplayTarget
from recovery.errors import WrongUse
from recovery.sinks.earlier import EarlierTable
from recovery.sources import targets
from recovery.strategies import replay
from recovery.strategies.base import Counts, Facts, ReplayFacts
from recovery.strategies.catalogue import needs_target, settled_later
from recovery.verification.criteria import REQUIRED
from tests.unit.strategies.facts import WITH, facts

TABLE = EarlierTable("files", 0, 2, 3, kept_files=("file:///t/a",), kept_rows=5, rows=12)
BACK = ReplayFacts(
    batch=0, committed=2, table=TABLE, reread_files=("file:///in/b", "file:///in/c"), reread_rows=7
)


def going(back: ReplayFacts | None = BACK, **changes: Any) -> Facts:
    """Facts of a replay to batch 0 of stateless code; 15 rows come after it."""
    given = facts(**{"counts": Counts(table=12, waiting=15), **changes})
    return replace(given, back=back, new_code=replace(given.new_code, key=()))


def judged(*given: Any, **changes: Any) -> Option:
    return replay.judge(going(*given, **changes))


def code_of(option: Option) -> BlockerCode | None:
    return option.blocker.code if option.blocker else None


def test_every_number_is_that_of_the_table_after_it_was_put_back() -> None:
    option = judged()
    assert option.blocker is None
    told = option.forecast
    assert [(a.rows, a.bound) for a in (told.lost, told.doubled, told.reread)] == [
        (0, Bound.EXACT), (0, Bound.EXACT), (7, Bound.EXACT),
    ]  # fmt: skip
    assert (told.new_rows, told.table_after, told.reread.files) == (15, 20, 2)
    assert [s.kind for s in option.steps] == ["stop", "backup", "restore", "seed", "rerun", "verify"]
    restore, seed = option.steps[2].args_as(RestoreArgs), option.steps[3].args_as(SeedArgs)
    assert (restore.batch, restore.removed_rows, restore.kept_rows) == (0, 7, 5)
    assert (seed.action, seed.last_committed, seed.state) == ("go-back", 0, None)
    assert {c.code for c in option.criteria} >= set(REQUIRED["replay"])
    begins = next(codec.to_json(c.expected) for c in option.criteria if c.code == "FIRST_BATCH_AT_POSITION")
    assert begins["batch"] == 1


def test_fewer_rows_of_the_same_input_are_lost_rows_and_uncounted_ones_are_not_known() -> None:
    fewer = judged(replace(BACK, reread_rows=4)).forecast.lost
    unknown = judged(replace(BACK, reread_rows=None)).forecast.lost
    assert [(a.rows, a.bound) for a in (fewer, unknown)] == [(3, Bound.EXACT), (None, Bound.UNKNOWN)]


def test_repeats_of_a_key_in_the_input_were_not_counted() -> None:
    given = going()
    with_key = replace(given, new_code=replace(given.new_code, key=("customer_id",)))
    assert replay.judge(with_key).forecast.doubled.bound is Bound.AT_LEAST


@pytest.mark.parametrize(
    ("state", "lost"),
    [
        ("stateStoreSave", (None, Bound.UNKNOWN)),
        ("symmetricHashJoin", (None, Bound.UNKNOWN)),
        ("flatMapGroupsWithState", (None, Bound.UNKNOWN)),
        ("dedupe", (0, Bound.EXACT)),
        ("globalLimit", (0, Bound.EXACT)),
    ],
)
def test_rows_that_only_the_state_of_then_held_are_not_counted(
    state: str, lost: tuple[int | None, Bound]
) -> None:
    """What had come by the batch and was in no table yet is read by no later batch."""
    found = replay.judge(going(replace(BACK, operators=(StateOperator(0, state, 2),)))).forecast.lost
    assert (found.rows, found.bound) == lost


def test_a_state_of_keys_tells_that_a_dropduplicates_goes_where_the_old_code_is_not_known() -> None:
    """The checkpoint of then is looked at without its state."""
    of_keys = replace(BACK, operators=(StateOperator(0, "dedupe", 2),))
    assert judged(of_keys).forecast.doubled.bound is Bound.AT_LEAST


def test_nor_were_those_that_a_dropduplicates_stopped_whose_key_the_code_yields_no_more() -> None:
    assert judged(drops_dedupe=True).forecast.doubled.bound is Bound.AT_LEAST


@pytest.mark.parametrize(
    ("given", "changes", "code"),
    [
        pytest.param((None,), {}, BlockerCode.TARGET_NEEDED, id="no target"),
        pytest.param((), {"is_plain": True}, BlockerCode.REPLAY_OF_PROGRAM, id="a program"),
        pytest.param(
            (replace(BACK, gone=("file:///in/b",)),), {}, BlockerCode.INPUT_GONE, id="its input is gone"
        ),
        pytest.param(
            (ReplayFacts(problem=Blocker(code=BlockerCode.OTHER_WRITERS, says="…")),),
            {},
            BlockerCode.OTHER_WRITERS,
            id="somebody else wrote the table",
        ),
        pytest.param(
            (),
            {"sink": replace(facts().sink, kind="kafka", declared="kafka")},
            BlockerCode.SINK_NOT_PUT_BACK,
            id="a topic",
        ),
        pytest.param(
            (),
            {"sink": replace(facts().sink, by_function=True)},
            BlockerCode.SINK_NOT_PUT_BACK,
            id="written by a function",
        ),
        pytest.param((), {"active_update": "u"}, BlockerCode.UPDATE_RUNNING, id="an update runs"),
    ],
)
def test_what_cannot_be_gone_back_to_is_blocked(
    given: tuple[Any, ...], changes: dict[str, Any], code: BlockerCode
) -> None:
    assert code_of(judged(*given, **changes)) is code


def test_a_target_can_still_be_chosen_for_a_blocked_replay() -> None:
    option = judged(None)
    assert needs_target(option)
    assert settled_later(option)


def test_code_with_state_is_not_taken_back() -> None:
    given = going(BACK)
    kept = replace(given.new_code, operators=("dedupe",), files={"/p/q.py": WITH})
    assert code_of(replay.judge(replace(given, new_code=kept))) is BlockerCode.CODE_KEEPS_STATE


@pytest.mark.parametrize("text", ["batch=4", "version=0", "time=2026-11-22T03:00:00+00:00"])
def test_a_target_is_written_as_it_is_read(text: str) -> None:
    target = targets.parse_target(text)
    assert targets.parse_target(targets.target_text(target)) == target
    assert ReplayTarget.model_validate(target.model_dump()) == target


@pytest.mark.parametrize("text", ["", "batch", "batch=-1", "batch=x", "offset=3", "time=yesterday"])
def test_what_names_no_target_is_wrong_use(text: str) -> None:
    with pytest.raises(WrongUse):
        targets.parse_target(text)


@pytest.mark.parametrize(
    ("reread", "changed", "lost"),
    [
        (7, False, (0, Bound.EXACT)),
        (4, False, (3, Bound.EXACT)),
        (7, True, (None, Bound.UNKNOWN)),  # as many rows need not be the same
        (4, True, (None, Bound.UNKNOWN)),
        (None, False, (None, Bound.UNKNOWN)),
    ],
    ids=["all of them", "fewer rows", "repaired", "repaired to fewer rows", "not counted"],
)
def test_what_is_lost_is_known_only_where_the_same_input_was_counted(
    reread: int | None, changed: bool, lost: tuple[int | None, Bound]
) -> None:
    back = replace(BACK, changed=changed, reread_rows=reread)
    found = replay.judge(going(back)).forecast.lost
    assert (found.rows, found.bound) == lost
