"""What a plan fixes is one value, and its seal is that of the JSON that the value is written as."""

import json
from pathlib import Path
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.plan import SCHEMA, PlanBody
from tests.factories.plans import plan_body, planned_input
from tests.unit.contracts import kept

RECORDED = sorted((Path(__file__).parent / "plans").glob("*.json"))
"""Bodies that were sealed before plans had a schema number, one a kind of recovery."""


def recorded(path: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(path.read_text())
    return body


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_plan_keeps_its_bytes_and_its_hash(path: Path) -> None:
    body = recorded(path)
    contents = codec.read_plan(body)
    assert codec.canonical_json(codec.to_read_json(contents)) == codec.canonical_json(body)
    assert codec.seal(codec.to_read_json(contents))[:12] == path.stem.rsplit("-", 1)[1]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_sealed_today_a_recorded_plan_would_differ_by_its_schema_number_alone(path: Path) -> None:
    body = recorded(path)
    numbered = {**body, "schema": SCHEMA}
    written = codec.to_json(codec.read_plan(numbered))
    assert {key: value for key, value in written.items() if key in numbered} == numbered
    read_as = PlanBody.model_construct()
    added = {key: value for key, value in written.items() if key not in numbered}
    assert added == {key: getattr(read_as, key) for key in added}


@pytest.mark.parametrize(("seal", "body"), [*kept.plans()])
def test_a_plan_of_the_first_release_is_read_but_does_not_run(seal: str, body: dict[str, Any]) -> None:
    contents = codec.read_plan(body)
    assert (contents.schema_number, contents.is_runnable) == (0, False)
    assert codec.seal(body) == seal
    assert (contents.strategy, contents.numbering.next_batch) == ("continue", 3)
    assert contents.preconditions.settings == {}
    assert not contents.sink.is_declared


def test_a_plan_is_written_as_it_is_read() -> None:
    body = plan_body(inputs=[planned_input(kind="kafka", topic_ids={"orders": "id-1"}, latest="{}")])
    written = codec.to_json(codec.read_plan(body))
    assert written["inputs"][0]["topic_ids"] == {"orders": "id-1"}
    assert codec.to_json(codec.read_plan(written)) == written
    assert codec.read_plan(body).is_runnable


def test_a_key_that_is_not_known_is_refused_unless_the_plan_is_older_than_schema_numbers() -> None:
    with pytest.raises(ValueError, match="more"):
        codec.read_plan(plan_body(more=1))
    with pytest.raises(ValueError, match="more"):
        codec.read_plan(plan_body(numbering={"more": 1}))
    older = plan_body(more=1, numbering={"more": 1})
    del older["schema"]
    assert codec.read_plan(older).numbering.next_batch == 3


@pytest.mark.parametrize(
    "changes", [{"schema": SCHEMA + 1}, {"strategy": "guess"}, {"table_rows": "12"}, {"state": ""}]
)
def test_what_is_no_plan_of_this_release_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="PlanBody"):
        codec.read_plan(plan_body(**changes))


@pytest.mark.parametrize(
    ("sink", "own"),
    [({"declared": ""}, "/t"), ({"declared": "kafka"}, "")],
    ids=["a table", "a declared sink"],
)
def test_a_sink_that_the_code_declares_has_no_place_among_the_tables(sink: dict[str, str], own: str) -> None:
    contents = codec.read_plan(plan_body(table_place="/t", sink=sink, other_tables={"c.s.o": "/o"}))
    assert contents.table_places == {"c.s.t": own, "c.s.o": "/o"}


def test_the_reviewed_code_is_the_sealed_one_as_its_patch_leaves_it() -> None:
    change = {"path": "/p/a.py", "before_sha256": "1", "after_sha256": "2", "diff": ""}
    body = plan_body(preconditions={"code": {"/p/a.py": "1", "/p/b.py": "3"}}, patch=[change])
    assert codec.read_plan(body).reviewed_code == {"/p/a.py": "2", "/p/b.py": "3"}
