"""Flows whose checkpoint lies on disk with positions of any kind, for looks at what waits behind them."""

from pathlib import Path
from typing import Any

from django.utils import timezone

from recovery.models import Flow, FlowInput, Message
from recovery.pipelines import looks, retention
from recovery.pipelines.retention import RetentionState
from recovery.sources.delta_facts import DeltaOffset
from tests import factories as f
from tests.checkpoint_builder import Built, put


def flow_at(folder: Path, *lines: str, **values: Any) -> Flow:
    """A flow with one committed batch that ended at these offset lines."""
    flow = f.flow(f.pipeline(spec={"storage": f"file:{folder}/storage"}), **values)
    root = checkpoint_of(folder, flow)
    Built(root, batches=1, sources=len(lines), operators=()).write()
    stand(folder, flow, *lines)
    return flow


def checkpoint_of(folder: Path, flow: Flow) -> Path:
    return folder / "storage/_checkpoints" / flow.dataset.replace(".", "/") / flow.short / "0"


def stand(folder: Path, flow: Flow, *lines: str) -> None:
    """Have the flow's only batch end at these lines."""
    root = checkpoint_of(folder, flow)
    header = (root / "offsets/0").read_text().split("\n")[:2]
    put(root / "offsets/0", "\n".join([*header, *lines]))


def delta_line(table_id: str, version: int, index: int = -1) -> str:
    return DeltaOffset(table_id, version, index).as_json()


def looked(flow: Flow) -> FlowInput:
    """What is kept of a look at the flow's first source."""
    looks.look(flow)
    return FlowInput.objects.get(flow=flow, index=0)


def judged(flow: Flow) -> RetentionState:
    """How the flow stands by what is kept of its sources."""
    found = retention.of(flow, FlowInput.objects.filter(flow=flow), timezone.now())
    assert found is not None
    return found.standing


def told() -> list[dict[str, Any]]:
    """What was announced of retention, oldest first."""
    return [m.body["facts"] for m in Message.objects.filter(event="flow.retention").order_by("pk")]
