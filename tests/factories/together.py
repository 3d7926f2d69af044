"""Failed flows of one pipeline on their way to a joint plan."""

from typing import Any

from recovery.models import Flow, Recovery, Step
from tests.factories import judged
from tests.factories.flows import failed_flow
from tests.factories.joint import second_flow


def broken_flows(count: int = 2, first: Flow | None = None) -> list[Flow]:
    """As many failed flows of one pipeline."""
    lead = first or failed_flow()
    others = [second_flow(lead, f"other{n}") for n in range(1, count)]
    Flow.objects.filter(pk__in=[other.pk for other in others]).update(streaming=True)
    return [lead, *others]


def open_for(flow: Flow, *, counted: bool = True, **choices: Any) -> Recovery:
    """An open recovery of the flow, with these choices."""
    return Recovery.objects.create(
        flow=flow,
        diagnosis=judged.STORED_DIAGNOSIS,
        facts=judged.facts() if counted else {"status": "none"},
        choices=choices,
        created_by="responder",
        owner="responder",
    )


def stop_early(row: Recovery) -> None:
    """The pipeline was stopped by this recovery, before any plan."""
    Step.objects.create(
        recovery=row, ordinal=1, kind="stop", state="done", idempotency_key=f"stop-{row.pk}-1",
        result={"was": "idle", "seconds": 0.1},
    )  # fmt: skip
