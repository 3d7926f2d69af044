"""Situations of plain streams, for `tests.browser.situations`. Django is set up before anything of it is imported."""

import os
import shutil
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any


def make_streams() -> dict[str, str]:
    """A plain stream before it is adopted, one whose event log tells nothing new, and one that is on the list."""
    from django.contrib.auth.models import User

    from recovery.models import Workspace
    from recovery.people.identity import actor_for_user
    from recovery.streams.actions import StreamDetails, adopt_stream
    from tests.checkpoint_builder import Built
    from tests.unit.eventlogs import logs

    root = Path(os.environ["REPRISE_HOME"]) / "storage" / "plain"
    events = root / "spark-events"
    events.mkdir(parents=True)
    (events / "local-1").write_bytes(
        b"".join(
            [*logs.started(), logs.query_started(name="orders"), logs.progress(0), logs.progress(1),
             logs.terminated(logs.FAILURE), logs.ended()]
        )
    )  # fmt: skip
    Built(root / "orders" / "_checkpoint", query_id=logs.QUERY, planned=1).write()
    Built(root / "returns" / "_checkpoint", query_id="3c8f6a10-52de-4b7e-9d41-a7c0e2b95f01").write()
    Workspace.objects.create(name="streams", kind="streams", environment="production")
    admin = actor_for_user(User.objects.get(username="admin"), via="page")
    said = StreamDetails(
        name="orders", event_log=str(events), owner="Team shop-core, +49 30 5550 0142",
        start="systemctl start orders", stop="systemctl stop orders", running="systemctl is-active --quiet orders",
    )  # fmt: skip
    adopted = adopt_stream(checkpoint=str(root / "orders" / "_checkpoint"), said=said, by=admin)
    return {
        "stream-begin": "/streams/new",
        "stream-none": "/streams/new?checkpoint=/nowhere/at/all",
        "stream-read": f"/streams/new?checkpoint={root}/returns/_checkpoint",
        "stream-said": f"/flows/{adopted.pipeline.flows.get().pk}/stream",
        "flow-adopted": f"/flows/{adopted.pipeline.flows.get().pk}",
        "pipeline-adopted": f"/pipelines/{adopted.pipeline.pk}",
        **_by_hand(root, admin),
    }


def _by_hand(root: Path, admin: Any) -> dict[str, str]:
    """Plain streams that a person starts: awaited, seen, started by others instead; and proven."""
    from django.utils import timezone

    from recovery.models import Stream
    from recovery.streams.actions import StreamDetails, adopt_stream
    from tests import factories as f
    from tests.checkpoint_builder import Built

    def adopt(name: str) -> Any:
        query = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
        built = Built(root / name / "_checkpoint", query_id=query).write()
        return adopt_stream(checkpoint=str(built.root), said=StreamDetails(name=name), by=admin)

    waits = _start_by_hand(adopt("refunds"), "WAITING_FOR_RESOURCES")
    seen = _start_by_hand(adopt("vouchers"), "RUNNING")
    foreign, going = _take_over(adopt("parcels")), adopt("packages")
    runs = _take_over(going)
    Stream.objects.filter(pk=going.pk).update(
        running=["true"], running_answer="running", running_asked_at=timezone.now() + timedelta(days=1)
    )
    proven = f.verified(adopt("invoices").pipeline.flows.get())
    gone = adopt("coupons").pipeline.flows
    gone.update(state="unknown", condition="CHECKPOINT_GONE", error=[])
    shutil.rmtree(root / "coupons")
    return {
        "run-by-hand": f"/recoveries/{waits.pk}/run",
        "run-by-hand-seen": f"/recoveries/{seen.pk}/run",
        "run-by-hand-stranger": f"/recoveries/{foreign.pk}/run",
        "run-by-hand-stranger-runs": f"/recoveries/{runs.pk}/run",
        "verify-stream": f"/recoveries/{proven.pk}/verify",
        "report-stream": f"/recoveries/{proven.pk}/report",
        "flow-stream": f"/flows/{proven.flow_id}",
        "flow-checkpoint-gone": f"/flows/{gone.get().pk}",
        "checkpoint-gone": f"/flows/{gone.get().pk}/checkpoint",
    }


def _take_over(stream: Any) -> Any:
    """A recovery whose rerun has failed, since something else has started the stream."""
    from django.utils import timezone

    from tests import factories as f

    foreign = f.into(f.running(stream.pipeline.flows.get(), "revert"), "needs_attention")
    foreign.steps.filter(kind="rerun").update(
        state="failed",
        ended_at=timezone.now(),
        result={},
        problem=f"Something else has started this stream since {foreign.label} was planned: batch 2 was the last one, "
        "now it is 3. Nothing was started. Disable what starts it and stop the stream. Then roll "
        f"{foreign.label} back; if it can no longer be, end it without proof "
        f"(bin/manage skip {foreign.label} --reason …).",
    )
    return foreign


def _start_by_hand(stream: Any, state: str) -> Any:
    """A recovery whose rerun has asked a person to start the stream, and has seen `state` of it."""
    from django.utils import timezone

    from recovery.models import Step, StreamStart
    from recovery.workflow.steps.rerun import say_state
    from tests import factories as f

    recovery, now = f.running(stream.pipeline.flows.get()), timezone.now()
    update = f"start-{stream.pk}"
    StreamStart.objects.create(stream=stream, update_id=update, asked_at=now, batch_before=2, by_hand=True)
    watched = {"began": now.isoformat(), "state": state}
    Step.objects.filter(recovery=recovery, kind="rerun").update(
        result={"update_id": update, "watched": watched},
        log=[[now.isoformat(), f"Run {update} {say_state(state)}."]],
    )
    return recovery
