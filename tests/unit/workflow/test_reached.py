"""How far each input was read when a proof measured it."""

from types import SimpleNamespace
from typing import Any, cast

from recovery.checkpoints.report import SourceProgress
from recovery.contracts import codec
from recovery.contracts.measured import Measured, MeasuredBelow, MeasuredOutcome, ReachedInput, Verdict
from recovery.contracts.results import BeforeFurther
from recovery.workflow.evidence import list_reached
from recovery.workflow.steps import verify
from tests.factories.plans import plan_contents, planned_input


def test_each_input_of_the_plan_is_found_by_its_name_or_its_place() -> None:
    sources = [
        SourceProgress(0, "kafka", '{"t":{"0":7}}', name="orders"),
        SourceProgress(1, "files", '{"logOffset":3}'),
    ]
    plan = plan_contents(inputs=[planned_input("orders"), planned_input(1), planned_input(2)])
    reached = list_reached(cast(Any, SimpleNamespace(sources=sources)), plan)
    assert [(one.source, one.offset_json) for one in reached] == [
        ("orders", '{"t":{"0":7}}'), (1, '{"logOffset":3}'), (2, None),
    ]  # fmt: skip


def test_the_proof_keeps_how_far_the_checkpoint_had_come_before_the_further_update() -> None:
    reached = (ReachedInput(source=0, offset_json='{"logOffset":3}'),)
    before = BeforeFurther(
        verdict=Verdict(), outcome=MeasuredOutcome(), below=MeasuredBelow(), rows=None, listed={}, version=None,
        files=(), ends=None, strange=None, reached=reached, last_batch=3,
    )  # fmt: skip
    again = codec.read(BeforeFurther, codec.to_json(before))
    proof = verify._result_of(again.verdict, again.outcome, again.below, again).measured
    assert proof is not None
    assert (proof.reached, proof.last_batch) == (reached, 3)


def test_a_proof_of_an_older_release_has_none() -> None:
    proof = codec.read(Measured, {"verified": True, "criteria": []})
    assert (proof.reached, proof.last_batch) == ((), None)
