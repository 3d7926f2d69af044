"""The product's own words on a world: its facts, its judgement of every strategy, the plan it would seal."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from recovery.checkpoints import inspect_checkpoint
from recovery.contracts.acceptance import Accepted
from recovery.contracts.choices import Choices
from recovery.contracts.diagnosis import StoredDiagnosis
from recovery.contracts.option import Option
from recovery.contracts.plan import PlanBody
from recovery.sources.base import StartChoice
from recovery.strategies import mapped
from recovery.strategies.base import Facts
from recovery.workflow import sealing
from recovery.workflow.flow_snapshot import FlowSnapshot
from recovery.workflow.gather import facts_of
from tests.matrix.world import PATH, World


def snapshot_of(world: World) -> FlowSnapshot:
    """What the API and the disk would say, of a pipeline that has no API."""
    workspace = SimpleNamespace(name="matrix", roots=(), real_roots={}, has_streams=False)
    pipeline = SimpleNamespace(
        workspace=workspace, environment="test", pipeline_id="p", name="p", spec={"storage": str(world.root)}
    )
    flow = SimpleNamespace(name=world.dataset, short=world.name, dataset=world.dataset, pipeline=pipeline)
    report = inspect_checkpoint(str(world.place), sink=world.sink.place or None)
    return FlowSnapshot(
        flow=flow,  # type: ignore[arg-type]
        client=None,  # type: ignore[arg-type]
        pipeline={
            "spec": {"root_path": "/p", "catalog": "spark_catalog", "schema": "default", "configuration": {}}
        },
        code=world.code(),
        libraries=(PATH,),
        checkpoint_place=str(world.place),
        checkpoint=report,
        table_place=world.sink.place,
        sink=world.sink.report(report.query_id),
        others={},
        active_update=None,
        last_update=None,
        storage=str(world.root),
    )


def facts(world: World, snapshot: FlowSnapshot, wishes: Mapping[str, StartChoice]) -> Facts:
    """With the code as it stands, and that of the last good update to go back to, where there was one.

    What is proposed about sources that were added, removed or replaced is confirmed, as a person would.
    """
    found = facts_of(snapshot, snapshot.code, world.old.code if world.old else None, wishes=wishes)
    proposed = mapped.propose_mapping(found)
    return found if proposed is None else replace(found, confirmed=proposed.unconfirmed)


def plan(snapshot: FlowSnapshot, found: Facts, option: Option, wishes: Mapping[str, StartChoice]) -> PlanBody:
    """The contents of the plan that would be sealed."""
    recovery: Any = SimpleNamespace(
        label="R-1", diagnosis_value=StoredDiagnosis(), chosen=Choices(positions=dict(wishes))
    )
    target = sealing.wanted_code(snapshot, found, option.strategy)
    changed = {p: text for p, text in target.items() if snapshot.code.get(p) != text}
    return sealing.build(recovery, snapshot, found, option, changed, Accepted())
