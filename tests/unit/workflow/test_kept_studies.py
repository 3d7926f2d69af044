"""An answer of Spark is used again only while everything that it rests on stands still."""

import json
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery import encryption
from recovery.contracts.readers import SourceReader
from recovery.models import Flow, KeptStudy
from recovery.sinks.base import SinkReport
from recovery.spark.api import Budgets, Limit, Study, StudyRequest
from recovery.spark.asking import Service
from recovery.workflow import gather, kept_studies
from recovery.workflow.kept_studies import KeptStudies, StudyBasis, key_of
from tests.unit.workflow import rows

pytestmark = pytest.mark.django_db

ASKED = StudyRequest(
    answers=Service("http://pipelines:8100", "a-secret"),
    files={"/p/q.py": "code"},
    root="/p",
    libraries=("/p/q.py",),
    configuration={"a": "1"},
    catalog="c",
    schema="s",
    flow="c.s.f",
    sets={"waiting": ("file:///in/1.json",)},
    key=("id",),
    table="c.s.t",
)
GROUND = StudyBasis("driver-1", "table-1", {"file:///in/1.json": (10, 1000)})
ANSWER = Study(
    operators=("dedupe",),
    sources=(SourceReader("json", "/in", {"x": "hidden-option"}, location="/in"),),
    rows={"waiting": 3},
    table_rows=7,
    rests_on=(),
    driver="driver-1",
)


class Spark:
    """Answers each question, and counts them."""

    def __init__(self, answer: Study = ANSWER) -> None:
        self.answer = answer
        self.asked = 0

    def __call__(self, request: StudyRequest) -> Study:
        self.asked += 1
        return self.answer


@pytest.fixture
def flow() -> Flow:
    return rows.flow()


def test_the_same_question_is_asked_once(flow: Flow) -> None:
    spark = Spark()
    kept = KeptStudies(flow, spark)
    assert [kept(ASKED, GROUND) for _ in range(3)] == [ANSWER] * 3
    assert KeptStudies(flow, spark)(ASKED, GROUND) == ANSWER
    assert spark.asked == 1


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "code": ({"files": {"/p/q.py": "other"}}, {}),
    "path of the code": ({"files": {"/p/r.py": "code"}}, {}),
    "root": ({"root": "/r"}, {}),
    "libraries": ({"libraries": ("/p/q.py", "/p/r.py")}, {}),
    "configuration": ({"configuration": {"a": "2"}}, {}),
    "catalog": ({"catalog": "d"}, {}),
    "schema": ({"schema": "r"}, {}),
    "flow": ({"flow": "c.s.g"}, {}),
    "label": ({"sets": {"everything": ("file:///in/1.json",)}}, {}),
    "files": ({"sets": {"waiting": ()}}, {}),
    "key": ({"key": None}, {}),
    "name of the table": ({"table": "c.s.u"}, {}),
    "no table": ({"table": None}, {}),
    "count by file": ({"by_file": True}, {}),
    "compared with the table": ({"lacking": "everything"}, {}),
    "rows that the table lacks": ({"committed": "processed"}, {}),
    "slices": ({"slices": {"waiting": {"0": {"kind": "kafka"}}}}, {}),
    "variables": ({"variables": {"S3_BUCKET": "b"}}, {}),
    "budgets": ({"budgets": Budgets(lookup=Limit(1))}, {}),
    "run of Spark": ({}, {"driver": "driver-2"}),
    "table": ({}, {"table": "table-2"}),
    "size of a file": ({}, {"files": {"file:///in/1.json": (11, 1000)}}),
    "time of a file": ({}, {"files": {"file:///in/1.json": (10, 1001)}}),
}


@pytest.mark.parametrize(("asked", "ground"), CHANGES.values(), ids=CHANGES)
def test_whatever_changes_is_asked_again(flow: Flow, asked: dict[str, Any], ground: dict[str, Any]) -> None:
    spark = Spark()
    kept = KeptStudies(flow, spark)
    kept(ASKED, GROUND)
    kept(replace(ASKED, **asked), replace(GROUND, **ground))
    assert spark.asked == 2


def test_every_field_of_a_request_is_told_apart() -> None:
    """A field that is added to `StudyRequest` has to be decided upon here."""
    named = {name for asked, _ in CHANGES.values() for name in asked}
    assert named | {"answers", "write"} == set(StudyRequest.__dataclass_fields__)


def test_the_address_of_spark_is_no_part_of_the_key() -> None:
    assert key_of(ASKED, GROUND) == key_of(
        replace(ASKED, answers=Service("http://localhost:1", "other")), GROUND
    )


@pytest.mark.parametrize(
    ("asked", "ground"),
    [
        ({}, {"driver": ""}),
        ({}, {"table": ""}),
        ({}, {"files": {}}),
        ({}, {"files": {"file:///in/1.json": (10, 0)}}),
        ({"slices": {"waiting": {"0": {"kind": "kafka"}}}}, {}),
        ({"write": {"waiting": "/scratch"}}, {}),
    ],
    ids=["no run of Spark", "no mark of the table", "a file not there", "no time", "a slice", "rows written"],
)
def test_what_cannot_be_named_is_asked_each_time(
    flow: Flow, asked: dict[str, Any], ground: dict[str, Any]
) -> None:
    spark = Spark()
    kept = KeptStudies(flow, spark)
    for _ in range(2):
        kept(replace(ASKED, **asked), replace(GROUND, **ground))
    assert spark.asked == 2
    assert not KeptStudy.objects.exists()


@pytest.mark.parametrize(
    "answer",
    [
        {"problem": "The rows could not be counted."},
        {"rests_on": None},
        {"rests_on": ("open /etc/prices",)},
        {"driver": "driver-2"},
    ],
    ids=["a problem", "not known", "a file of its own", "Spark was started again meanwhile"],
)
def test_such_an_answer_is_not_kept(flow: Flow, answer: dict[str, Any]) -> None:
    spark = Spark(replace(ANSWER, **answer))
    kept = KeptStudies(flow, spark)
    for _ in range(2):
        kept(ASKED, GROUND)
    assert spark.asked == 2
    assert not KeptStudy.objects.exists()


def test_an_answer_is_not_used_for_another_flow(flow: Flow) -> None:
    spark = Spark()
    KeptStudies(flow, spark)(ASKED, GROUND)
    KeptStudies(rows.flow(), spark)(ASKED, GROUND)
    assert spark.asked == 2


def test_an_old_answer_is_asked_again_and_goes(flow: Flow) -> None:
    spark = Spark()
    kept = KeptStudies(flow, spark)
    kept(ASKED, GROUND)
    KeptStudy.objects.update(at=timezone.now() - kept_studies.AGE - timedelta(seconds=1))
    kept(replace(ASKED, key=None), GROUND)
    assert KeptStudy.objects.count() == 1
    kept(ASKED, GROUND)
    assert spark.asked == 3


def test_the_newest_answers_of_a_flow_stay(flow: Flow) -> None:
    spark = Spark()
    kept = KeptStudies(flow, spark)
    for number in range(kept_studies.EACH + 2):
        kept(replace(ASKED, key=(f"k{number}",)), GROUND)
    assert KeptStudy.objects.count() == kept_studies.EACH
    kept(replace(ASKED, key=(f"k{kept_studies.EACH + 1}",)), GROUND)
    assert spark.asked == kept_studies.EACH + 2
    kept(replace(ASKED, key=("k0",)), GROUND)
    assert spark.asked == kept_studies.EACH + 3


def test_an_answer_that_is_too_large_is_not_kept(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_studies, "BYTES", 100)
    KeptStudies(flow, Spark())(ASKED, GROUND)
    assert not KeptStudy.objects.exists()


def test_options_lie_in_the_database_encrypted(flow: Flow, settings: Any) -> None:
    spark = Spark()
    KeptStudies(flow, spark)(ASKED, GROUND)
    row = KeptStudy.objects.get()
    assert "hidden-option" not in row.answer
    settings.SECRET_KEY = "another one, since yesterday"
    KeptStudies(flow, spark)(ASKED, GROUND)
    assert spark.asked == 2


def test_a_table_is_told_by_its_place_its_making_and_its_files(tmp_path: Any) -> None:
    (tmp_path / "t").mkdir()
    data = tmp_path / "t" / "part-0.parquet"
    data.write_text("rows")

    def mark(place: str = str(tmp_path / "t"), made: str = "monday") -> str:
        sink = SinkReport("files", place, 2)
        snapshot: Any = SimpleNamespace(table_place=place, made=made, sink=sink)
        return gather.mark_of_table(snapshot)

    before = mark()
    assert mark() == before != ""
    assert mark(made="tuesday") != before
    assert mark(place=str(tmp_path)) != before
    data.write_text("more rows")
    assert mark() != before
    assert mark(place="") == ""


def test_an_answer_that_an_older_release_kept_is_used(flow: Flow) -> None:
    """Its readers have no fields but those that Spark filled."""
    spark = Spark()
    KeptStudies(flow, spark)(ASKED, GROUND)
    row = KeptStudy.objects.get()
    kept = json.loads(encryption.decrypted(row.answer, kept_studies.PURPOSE))
    kept["sources"] = [
        {"format": "json", "path": "/in", "options": {"x": "hidden-option"}, "schema": "", "location": "/in"}
    ]
    KeptStudy.objects.update(answer=encryption.encrypted(json.dumps(kept), kept_studies.PURPOSE))
    assert KeptStudies(flow, spark)(ASKED, GROUND) == ANSWER
    assert spark.asked == 1
