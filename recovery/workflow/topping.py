"""What a top-up and a deduplicate are asked for: who else writes the table, and how many rows a proof did not find, or
found too often. Reads the records."""

from dataclasses import replace

from recovery.contracts import codec
from recovery.contracts.measured import EVERY_ROW_ONCE, NO_KEY_TWICE, Measured
from recovery.contracts.results import VerifyResult
from recovery.models import Flow, Step
from recovery.strategies.base import Facts
from recovery.strategies.top_up import HAS_EVERY_ROW
from recovery.workflow import backups


def with_records(facts: Facts, flow: Flow) -> Facts:
    """The facts with what earlier recoveries and other flows did to the flow's table."""
    proof = newest_proof(flow)
    return replace(
        facts,
        unfilled=backups.find_unfilled(flow),
        writers=other_writers(flow),
        found_missing=missing_in(proof),
        found_repeated=repeated_in(proof),
    )


def other_writers(flow: Flow) -> tuple[str, ...]:
    """Other flows of the pipeline that write the flow's table, by their short names."""
    if not flow.dataset:
        return ()
    others = flow.pipeline.flows.filter(dataset=flow.dataset).exclude(pk=flow.pk)
    return tuple(sorted(others.values_list("short", flat=True)))


def newest_proof(flow: Flow) -> Measured | None:
    """What the newest proof of this flow measured; None where there is none. One that was rolled back since says
    nothing of the table."""
    proofs = Step.objects.filter(recovery__flow=flow, kind="verify", state="done")
    proof = proofs.exclude(recovery__state="rolled_back").order_by("-pk").first()
    return None if proof is None else codec.read(VerifyResult, proof.result).measured


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


def repeated_in(proof: Measured | None) -> int | None:
    """Rows that a proof found in the table more often than they are due, by their key; None where it holds, or did not
    compare them."""
    if proof is None or proof.verified:
        return None
    names = {NO_KEY_TWICE: "rows", HAS_EVERY_ROW: "extra"}
    counts = [
        judged.measured_number(names[judged.code])
        for judged in proof.criteria
        if judged.code in names and judged.ok is False
    ]
    return max((rows for rows in counts if rows), default=None)
