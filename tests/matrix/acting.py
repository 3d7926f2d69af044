"""Does what a plan's steps say, with the product's own steps where they need no Pipelines API, and counts rows."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

from recovery.contracts import codec
from recovery.contracts.option import Option
from recovery.contracts.plan import PlanBody
from recovery.contracts.steps import UpdateArgs
from recovery.errors import RepriseError
from recovery.strategies.base import Facts, KeyKind
from recovery.strategies.sinks import is_compared, is_table
from recovery.workflow import sealing
from recovery.workflow.flow_snapshot import FlowSnapshot
from recovery.workflow.steps import seed
from tests.matrix import judging
from tests.matrix.room import first
from tests.matrix.world import (
    IN_WINDOWS,
    JOINED,
    LATE_PARTNER,
    LIMITED,
    MATCHES,
    PARTNERS,
    PLAIN,
    ROUND,
    World,
    still_open,
)

PASS_OVER = "parquet"  # the sink that skips batches by their number
WITHOUT_STATE = ("continue",)  # the others keep it, or build it from everything again


@dataclass(frozen=True)
class Outcome:
    """Rows of the table against what should be there. `reread`: None where the code drops rows on its way."""

    lost: int
    doubled: int
    new_rows: int
    table_after: int
    reread: int | None


class Failed(Exception):
    """A plan that was said to run did not. One sentence."""


def perform(
    world: World, snapshot: FlowSnapshot, found: Facts, option: Option, contents: PlanBody
) -> Outcome:
    """Run one option on the world. Raises Failed. The world is left as the plan leaves it."""
    before = world.rows()
    code = sealing.wanted_code(snapshot, found, option.strategy)
    said: dict[str, Any] = {}
    for step in option.steps:
        if step.kind not in ELSEWHERE:
            try:
                said = ACTS[step.kind](world, step, contents, code) or said
            except RepriseError as problem:
                raise Failed(f"{step.kind}: {problem.sentence}") from problem
    came = outcome(world, option, before, int(said["answer"]), chosen=bool(contents.wishes))
    if _by_keys(world, option) and found.new_code.key_kind in OF_GONE_STEP and counts_keys(found):
        stood = Counter[int]() if option.strategy == "full-refresh" else before
        return replace(came, doubled=sum(repeats_of_keys(stood, world.rows()).values()))
    return came


OF_GONE_STEP = (KeyKind.OLD_CODE, KeyKind.STATE)
"""Keys of a dropDuplicates that the new code has no more, by which repeats of what waits count as doubled."""
KEYED = (
    "continue",
    "full-refresh",
    "empty",
)  # their forecast tells repeats of the key that dropDuplicates had


def _by_keys(world: World, option: Option) -> bool:
    """Of an empty reset at a sink that passes over batches the forecast goes by files."""
    passes = option.strategy == "empty" and world.sink.told["sink"] == PASS_OVER
    return option.strategy in KEYED and not passes


def counts_keys(found: Facts) -> bool:
    """Whether keys can be counted there: a table whose rows are compared."""
    return is_table(found) and is_compared(found.sink)


def repeats_of_keys(before: Counter[int], after: Counter[int]) -> Counter[int]:
    """Rows that came beyond the first of their key."""
    return Counter({n: more for n, times in after.items() if (more := times - max(before[n], 1)) > 0})


def _seed(world: World, step: Any, contents: PlanBody, code: Mapping[str, str]) -> None:
    watch = SimpleNamespace(guard=lambda: None, log=lambda _: None, keep=lambda **_: None)
    flow = _flow(world)
    recovery = SimpleNamespace(label="R-1", flow=flow, pk=1)
    told = SimpleNamespace(args=codec.to_read_json(step.args), fence=1, result={}, recovery=recovery, pk=1)
    context: Any = SimpleNamespace(
        step=told, watch=watch, recovery=recovery, flow=flow, contents=contents, log=lambda _: None, plan=None
    )
    # the one thing that a seed asks an API for, where the query has to make its own empty state
    with mock.patch.object(seed, "read_flow_snapshot", return_value=judging.snapshot_of(world)):
        seed.run(context)


def _flow(world: World) -> Any:
    pipeline = SimpleNamespace(
        spec={"storage": str(world.root)},
        name="p",
        pipeline_id="p",
        workspace=SimpleNamespace(roots=(), real_roots={}, has_streams=False),
    )
    return SimpleNamespace(name=world.dataset, short=world.name, dataset=world.dataset, pipeline=pipeline)


def _rerun(world: World, step: Any, contents: PlanBody, code: Mapping[str, str]) -> dict[str, Any]:
    args = step.args_as(UpdateArgs)
    if args.is_reset or not step.args.model_fields_set:
        _next_version(world)
    if args.full_refresh:
        world.sink.empty()
    said = world.update(code)
    if "problem" in said:
        raise Failed(f"rerun: {first(said['problem'])}")
    return said


def _next_version(world: World) -> None:
    """As SDP resets a flow: an empty folder with the next number."""
    (world.place / str(int(world.checkpoint.name) + 1)).mkdir()


ELSEWHERE = ("stop", "backup", "patch", "verify")  # they change neither checkpoint nor table
ACTS: Mapping[str, Callable[..., dict[str, Any] | None]] = {"seed": _seed, "rerun": _rerun}


def outcome(world: World, option: Option, before: Counter[int], read: int, *, chosen: bool) -> Outcome:
    """`chosen`: it did not start where it was committed, so that what is lost was not read at all."""
    after = world.rows()
    sources, operator = _ran(world, option)
    waiting = world.waiting(sources)
    stands = Counter[int]() if world.crashed else before
    should = stands + _written_later(world, option) + _yielded(world, option, waiting, operator)
    lost, doubled = should - after, after - should
    # a batch that the file sink skips is never run, so that Spark counts none of its rows
    untold = operator != PLAIN or (option.strategy == "empty" and world.sink.told["sink"] == PASS_OVER)
    # of a batch that only a sink without a memory knows nobody can say whether it is read again
    untold = untold or (world.open_batch and not world.sink.is_table)
    ahead = waiting if option.strategy != "continue" else world.waiting(world.sources)
    # what waits in a source that was left behind is lost too, but nobody would have read it here
    skipped = (lost & ahead).total() if chosen else world.gone
    reread = None if untold else read - ahead.total() + skipped
    emptied = option.strategy == "full-refresh" and world.sink.is_table
    new_rows = after.total() - (0 if emptied else before.total())
    return Outcome(lost.total(), doubled.total(), new_rows, after.total(), reread)


def _written_later(world: World, option: Option) -> Counter[int]:
    """What the state alone held and should be there then: all of it, unless the old code goes on and keeps it open."""
    if option.strategy != "revert":
        return world.held()
    assert world.old
    return world.held() - still_open(world.read + world.waiting(world.old.sources), world.old.operator)


def _ran(world: World, option: Option) -> tuple[Sequence[Any], str]:
    """Sources whose rows count, and the stateful step of the code that ran.

    What waits in a source that continue leaves behind is lost by it; for a full refresh only what the table loses is.
    """
    if option.strategy == "revert":
        assert world.old
        return world.old.sources, world.old.operator
    if option.strategy == "continue":
        return [s for s, _ in world.unread], world.operator
    return world.sources, world.operator


def _yielded(world: World, option: Option, waiting: Counter[int], operator: str) -> Counter[int]:
    """Rows that should come of what waits: repeats once where the code drops them, none of those that it has seen."""
    if operator in (PLAIN, LIMITED):
        return waiting
    if operator in MATCHES:
        return Counter({n: 1 for n in (*waiting, LATE_PARTNER) if n % ROUND in PARTNERS or n == LATE_PARTNER})
    if operator in (*IN_WINDOWS, JOINED):
        # the old code goes on: what it had read, and what is new, but for what stays open
        every = world.read + waiting
        return Counter({n: 1 for n in waiting if n not in world.read}) - still_open(every, operator)
    seen = Counter[int]() if option.strategy in WITHOUT_STATE else world.read
    return Counter({n: 1 for n in waiting if n not in seen})
