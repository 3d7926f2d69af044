"""A flow to seed, and the seed in one call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint, seed
from tests.checkpoint_builder import Built


def free() -> None:
    """A guard that always lets pass."""


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    """A flow whose version 0 has three committed batches and one that a failed restart planned."""
    Built(tmp_path / "flow" / "0", batches=3, planned=1).write()
    return tmp_path / "flow"


def prepared(
    flow: Path, *, recovery: str = "R-1", fence: int = 1, guard: Callable[[], None] = free
) -> seed.PreparedCheckpoint:
    plan = seed.plan_seed(inspect_checkpoint(str(flow)))
    return seed.prepare_seed(str(flow), plan, recovery=recovery, fence=fence, guard=guard)


def seeded(flow: Path, **words: Any) -> int:
    return seed.publish_checkpoint(str(flow), prepared(flow, **words), guard=words.get("guard", free))


def tree(where: Path) -> dict[str, bytes]:
    return {str(p.relative_to(where)): p.read_bytes() for p in sorted(where.rglob("*")) if p.is_file()}
