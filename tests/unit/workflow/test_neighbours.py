"""What two flows must not share: a checkpoint, or a file table."""

from pathlib import Path
from typing import Any

import pytest

from recovery.models import Flow
from recovery.workflow.neighbours import find_shared_storage, writes_files
from recovery.workflow.places import checkpoint_of
from tests import factories
from tests.checkpoint_builder import Built

pytestmark = pytest.mark.django_db
FILES = {"sink": {"description": "FileSink[file:/tables/orders]"}}


def flow(tmp_path: Path, pipeline: str, name: str = "load", **values: Any) -> Flow:
    owner = factories.pipeline(name=pipeline, spec={"storage": (tmp_path / pipeline[0]).as_uri()})
    one = factories.failed_flow(owner)
    given = {"short": name, "name": f"c.s.{name}", "dataset": "c.s.orders", "state": "ok", **values}
    Flow.objects.filter(pk=one.pk).update(**given)
    return Flow.objects.get(pk=one.pk)


@pytest.mark.parametrize(
    ("pipeline", "values", "codes"),
    [
        ("x", {}, ["SINK_SHARED"]),  # the same table from a storage of its own
        ("x", {"dataset": "c.s.other"}, []),
        ("a2", {}, ["LOCATION_SHARED", "SINK_SHARED"]),  # the same storage, table and name
        ("a2", {"short": "more"}, ["SINK_SHARED"]),
        ("a2", {"state": "unknown", "condition": ""}, []),  # the code no longer has it
        # it has it, and why nobody knows how it is has a name
        ("a2", {"state": "unknown", "condition": "SINK_NOT_READ"}, ["LOCATION_SHARED", "SINK_SHARED"]),
        ("a2", {"dataset": ""}, []),  # it has never run
        ("a2", {"streaming": False}, []),
    ],
)
def test_what_another_flow_shares_is_a_blocker(
    tmp_path: Path, pipeline: str, values: dict[str, Any], codes: list[str]
) -> None:
    mine = flow(tmp_path, "a1")
    flow(tmp_path, pipeline, **values)
    found = find_shared_storage(mine, checkpoint_of(mine), file_table=True)
    assert [f.code for f in found] == codes
    assert all("load (a1)" in f.says and f"({pipeline})" in f.says for f in found)


def test_a_table_that_is_none_of_files_takes_several_writers(tmp_path: Path) -> None:
    mine = flow(tmp_path, "a")
    flow(tmp_path, "x")
    assert find_shared_storage(mine, checkpoint_of(mine), file_table=False) == ()


def test_a_pipeline_that_is_gone_shares_nothing(tmp_path: Path) -> None:
    mine, other = flow(tmp_path, "a1"), flow(tmp_path, "a2")
    type(other.pipeline).objects.filter(pk=other.pipeline.pk).update(gone=True)
    assert find_shared_storage(mine, checkpoint_of(mine), file_table=True) == ()


@pytest.mark.parametrize(
    ("progress", "files"),
    [
        (FILES, True),
        ({"sink": {"description": "DeltaSink[/x]"}}, False),
        ({}, False),
        ({"sink": None}, False),
    ],
)
def test_the_newest_progress_tells_a_file_table(
    tmp_path: Path, progress: dict[str, Any], files: bool
) -> None:
    assert writes_files(flow(tmp_path, "a", last_progress=progress)) is files


@pytest.mark.parametrize(
    ("pipeline", "progress", "copied", "found"),
    [
        ("a1", {}, True, True),  # the copy has not run yet
        ("x", {}, True, False),  # of another pipeline only what its progress tells is asked
        ("x", "own", True, True),
        ("x", "own", False, False),  # it has another checkpoint since
        ("a1", {}, False, False),
    ],
)
def test_a_copied_checkpoint_is_a_blocker_of_both_flows(
    tmp_path: Path, pipeline: str, progress: Any, copied: bool, found: bool
) -> None:
    mine = flow(tmp_path, "a1", dataset="c.s.mine")
    built = Built(Path(checkpoint_of(mine).removeprefix("file://")) / "0", operators=()).write()
    told = {"id": built.query_id} if progress == "own" else {}
    other = flow(tmp_path, pipeline, "more", dataset="c.s.other", last_progress=told)
    if other.pipeline_id != mine.pipeline_id and pipeline == "a1":
        Flow.objects.filter(pk=other.pk).update(pipeline=mine.pipeline)
        other = Flow.objects.get(pk=other.pk)
    there = Path(checkpoint_of(other).removeprefix("file://")) / "3"
    Built(there, operators=(), **({"query_id": built.query_id} if copied else {})).write()
    codes = [f.code for f in find_shared_storage(mine, checkpoint_of(mine), file_table=False)]
    assert codes == (["QUERY_ID_SHARED"] if found else [])
