"""A batch that somebody else planned during a recovery is seen before anything of the plan is started."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recovery.errors import Refused
from recovery.streams.actions import StreamDetails, adopt_stream
from recovery.streams.standing import read_progress
from recovery.workflow import strangers
from recovery.workflow.steps.base import Context
from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs
from tests.unit.streams.running_streams import ADMIN, planned

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("theirs", "is_refused"), [(None, False), ("offsets/9", True), ("commits/9", True)])
def test_a_batch_that_is_planned_and_not_committed_is_of_somebody_else_too(
    theirs: str | None, is_refused: bool, tmp_path: Path
) -> None:
    built = Built(tmp_path / "data" / "orders", query_id=logs.QUERY).write()
    stream = adopt_stream(checkpoint=str(built.root), said=StreamDetails(environment="development"), by=ADMIN)
    recovery = planned(stream)
    left = read_progress(str(built.root))
    recovery.steps.create(
        plan=recovery.plans.get(), ordinal=1, kind="seed", state="done", idempotency_key="seed",
        result={
            "version": None, "query_id": logs.QUERY, "last_committed": left.committed, "last_planned": left.planned,
        },
    )  # fmt: skip
    if theirs:
        (built.root / theirs).write_text("v1\n{}")
    given: Any = SimpleNamespace(
        flow=recovery.flow,
        recovery=recovery,
        plan=recovery.plans.get(),
        step=SimpleNamespace(result={}),
    )
    if not is_refused:
        strangers.refuse_foreign_batches(cast(Context, given))
        return
    with pytest.raises(Refused) as refusal:
        strangers.refuse_foreign_batches(cast(Context, given))
    assert refusal.value.code == "batch_by_others"
