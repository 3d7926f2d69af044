"""What the Pipelines API server forgets, and what it keeps whatever its age."""

from pathlib import Path
from typing import Any

import pytest

from recovery.server import events, keeping
from recovery.server.keeping import DAY_MS, ForgottenUpdates, KeepingRule, prune_updates
from recovery.server.models import Event, Pipeline, Update

pytestmark = pytest.mark.django_db(databases=["default", "pipelines"])
KEEP = KeepingRule(days=90, updates=2)


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline.objects.create(name="p", spec={}, creator="ada", last_modified_ms=1)


def ran(
    pipeline: Pipeline, home: Path, *, days: int, state: str = "FAILED", table: str = "", **options: Any
) -> str:
    """An update that ended so many days ago, with an event and a folder; its id."""
    ended = None if state == "RUNNING" else events.now_ms() - days * DAY_MS
    update = Update.objects.create(
        pipeline=pipeline, spec={}, created_ms=1, ended_ms=ended, state=state, options=options
    )
    details = {"dataset_type": "STREAMING_TABLE"}
    kind = "dataset_definition" if table else "update_progress"
    events.store_event(
        pipeline, kind, "m", details, update_id=update.id, origin={"dataset_name": table} if table else {}
    )
    (home / "updates" / update.id).mkdir(parents=True)
    return update.id


def kept() -> set[str]:
    return set(Update.objects.values_list("id", flat=True))


def test_old_updates_go_with_their_events_and_folders(pipeline: Pipeline, tmp_path: Path) -> None:
    old = [ran(pipeline, tmp_path, days=d) for d in (300, 200, 91)]
    new = [ran(pipeline, tmp_path, days=d) for d in (89, 100, 95)]
    alone = events.store_event(pipeline, "user_action", "m", {})
    assert prune_updates(tmp_path, KEEP) == ForgottenUpdates(3, 3, 3)
    assert kept() == set(new), "two by their number, one by its age"
    assert {entry.name for entry in (tmp_path / "updates").iterdir()} == set(new)
    assert Event.objects.filter(update_id__in=old).count() == 0
    assert Event.objects.filter(pk=alone.pk).exists(), "what belongs to no update stays"
    assert prune_updates(tmp_path, KEEP) == ForgottenUpdates()


def test_the_newest_that_completed_is_kept_and_a_dry_run_is_none(pipeline: Pipeline, tmp_path: Path) -> None:
    ran(pipeline, tmp_path, days=400, state="COMPLETED")
    good = ran(pipeline, tmp_path, days=300, state="COMPLETED")
    ran(pipeline, tmp_path, days=200, state="COMPLETED", validate_only=True)
    newest = [ran(pipeline, tmp_path, days=100) for _ in range(2)]
    prune_updates(tmp_path, KEEP)
    assert kept() == {good, *newest}


def test_the_last_that_defined_a_table_is_kept_so_that_a_deletion_drops_it(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    gone = ran(pipeline, tmp_path, days=300, table="main.s.both")
    only = ran(pipeline, tmp_path, days=300, table="main.s.old")
    newest = [ran(pipeline, tmp_path, days=100, table="main.s.both") for _ in range(2)]
    prune_updates(tmp_path, KEEP)
    assert kept() == {only, *newest}
    assert gone not in kept()


def test_an_active_update_and_other_pipelines_are_left(pipeline: Pipeline, tmp_path: Path) -> None:
    other = Pipeline.objects.create(name="q", spec={}, creator="ada", last_modified_ms=1)
    all_of_them = {ran(pipeline, tmp_path, days=0, state="RUNNING"), ran(other, tmp_path, days=300)}
    assert prune_updates(tmp_path, KeepingRule(days=1, updates=1)) == ForgottenUpdates()
    assert kept() == all_of_them


def test_a_folder_without_an_update_is_removed(tmp_path: Path) -> None:
    (tmp_path / "updates/left-over").mkdir(parents=True)
    assert prune_updates(tmp_path, KEEP).folders == 1
    assert prune_updates(tmp_path / "nothing", KEEP) == ForgottenUpdates()


def test_no_more_than_a_number_goes_at_once(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "AT_ONCE", 2)
    ids = [ran(pipeline, tmp_path, days=300) for _ in range(7)]
    assert prune_updates(tmp_path, KEEP).updates == 2
    assert kept() == set(ids[2:]), "the oldest first"
