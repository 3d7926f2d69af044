"""What a top-up is asked for: who else writes the table, and how many rows a proof did not find. Reads the records."""

from dataclasses import replace

from recovery.contracts import codec
from recovery.contracts.measured import EVERY_ROW_ONCE, Measured
from recovery.contracts.results import VerifyResult
from recovery.models import Flow, Step
from recovery.strategies.base import Facts
from recovery.strategies.top_up import HAS_EVERY_ROW
from recovery.workflow import backups


def with_records(facts: Facts, flow: Flow) -> Facts:
    """The facts with what earlier recoveries and other flows did to the flow's table."""
    return replace(
        facts,
        unfilled=backups.find_unfilled(flow),
        writers=other_writers(flow),
        found_missing=rows_not_found(flow),
    )


def other_writers(flow: Flow) -> tuple[str, ...]:
    """Other flows of the pipeline that write the flow's table, by their short names."""
    if not flow.dataset:
        return ()
    others = flow.pipeline.flows.filter(dataset=flow.dataset).exclude(pk=flow.pk)
    return tuple(sorted(others.values_list("short", flat=True)))


def rows_not_found(flow: Flow) -> int | None:
    """Rows that the newest proof of this flow did not find in its table; None where it found all, or there is none. One
    that was rolled back since says nothing of the table."""
    proofs = Step.objects.filter(recovery__flow=flow, kind="verify", state="done")
    proof = proofs.exclude(recovery__state="rolled_back").order_by("-pk").first()
    return None if proof is None else missing_in(codec.read(VerifyResult, proof.result).measured)


def missing_in(proof: Measured | None) -> int | None:
    """Rows that a proof did not find; None where it holds, or did not compare them."""
    if proof is None or proof.verified:
        return None
    counts = [
        judged.measured_number("missing")
        for judged in proof.criteria
        if judged.code in (EVERY_ROW_ONCE, HAS_EVERY_ROW)
    ]
    return max((rows for rows in counts if rows), default=None)
