"""What a verdict needs to know of the sources: Spark is asked once where they are, and not at all for files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.checkpoints.report import CheckpointReport, Entries, SourceEntry, SourceProgress
from recovery.contracts import codec
from recovery.contracts.plan import PlanBody
from recovery.contracts.readers import NO_READER, SourceReader
from recovery.contracts.results import InputMark, SourceEnd
from recovery.errors import Refused
from recovery.sinks.base import SinkReport
from recovery.sources.base import Position, Precision, SourceFacts
from recovery.sources.delta_facts import DeltaOffset
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts
from recovery.sources.live import kafka as live_kafka
from recovery.spark.api import Measure, MeasureRequest, Study, StudyRequest
from recovery.strategies.catalogue import EXECUTABLE
from recovery.verification.criteria import REQUIRED
from recovery.verification.evidence import (
    ReachedPosition,
    is_folder_read_unevenly,
    measured_from,
    new_data_files,
    new_inputs,
)
from recovery.workflow import evidence, readers, sealing
from recovery.workflow.flow_snapshot import FlowSnapshot
from recovery.workflow.readers import Readers
from tests.delta_tables import TABLE, add, commit, table
from tests.factories.plans import plan_contents, planned_input, planned_position
from tests.refusals import refused
from tests.unit.strategies.facts import checkpoint

REMOTE = "SPARK_OF_THIS_TEST"


class Spark:
    """Answers as the Spark room does, and remembers what it was asked."""

    def __init__(self, *places: Path) -> None:
        self.places = places
        self.studies: list[StudyRequest] = []
        self.measures: list[MeasureRequest] = []

    @property
    def asked_where(self) -> int:
        """How often it was asked where the code reads from, and nothing else."""
        return sum(not request.sets for request in self.studies)

    def study(self, request: StudyRequest) -> Study:
        self.studies.append(request)
        readers = tuple(SourceReader("delta", str(p), location=str(p)) for p in self.places)
        return Study(operators=(), sources=readers, rows=dict.fromkeys(request.sets, 7))

    def measure(self, request: MeasureRequest, *, timeout: float) -> Measure:
        assert timeout > 0
        self.measures.append(request)
        return Measure(table_rows=3)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Two tables whose versions 1 to 3 add a file each."""
    found = (tmp_path / "a", tmp_path / "b")
    for place in found:
        table(place, [[], [add("f1")], [add("f2")], [add("f3")]])
    return found


@pytest.fixture
def spark(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Spark:
    found = Spark(*places)
    monkeypatch.setenv(REMOTE, "sc://localhost:1")
    for module in (evidence, readers):
        monkeypatch.setattr(module, "study", found.study)
    monkeypatch.setattr(evidence, "measure", found.measure)
    return found


def line(version: int) -> str:
    return DeltaOffset(TABLE, version).as_json()


def snapshot(*ends: str | None, kind: str = "delta") -> FlowSnapshot:
    """A flow whose checkpoint has committed up to `ends`, a source each."""
    workspace = SimpleNamespace(
        name="w",
        questions_url="http://127.0.0.1:9",
        questions_token_ref=f"env:{REMOTE}",
        questions_token_kept="",
        questions_spark="",
    )
    pipeline = SimpleNamespace(workspace=workspace, pipeline_id="p", name="p", environment="staging")
    flow: Any = SimpleNamespace(name="main.shop.t", dataset="main.shop.t", pipeline=pipeline)
    client: Any = SimpleNamespace(events=lambda *_, **__: [])
    sources = tuple(SourceProgress(n, kind, end) for n, end in enumerate(ends))
    return FlowSnapshot(
        flow=flow,
        client=client,
        pipeline={"spec": {}},
        code={"/p/t.py": ""},
        libraries=("/p/t.py",),
        checkpoint_place="/c",
        checkpoint=CheckpointReport("/c/0", "structured-streaming", 0, "q", 4, 4, sources),
        table_place="/t",
        sink=SinkReport("delta", "/t", 9, version=9),
        others={},
        active_update=None,
        last_update=None,
    )


def contents(*inputs: Mapping[str, Any], strategy: str = "revert") -> PlanBody:
    """A plan that puts the old code back: its batches go on in the same version of the checkpoint."""
    return plan_contents(
        strategy=strategy,
        dataset="main.shop.t",
        inputs=list(inputs),
        positions=[planned_position(source["start"], source["source"]) for source in inputs],
        preconditions={"checkpoint": {"version": 0, "last_committed": 3}, "sink": {"head": 8}},
    )


def of_delta(number: int, start: int, latest: int) -> dict[str, Any]:
    return planned_input(number, kind="delta", start=line(start), latest=line(latest))


def collected(there: FlowSnapshot, plan: PlanBody, told: Readers, seen: Mapping[str, InputMark]) -> Any:
    return evidence.collect(
        there, plan, told, seen=seen, sink_before=(), version_before=8, update_ids=["u-1"]
    )


def test_spark_is_asked_once_where_the_code_reads_however_much_is_to_be_known_of_its_sources(
    spark: Spark, places: tuple[Path, Path]
) -> None:
    plan = contents(of_delta(0, 2, 3), of_delta(1, 2, 4))
    there = snapshot(line(4), line(4))
    told = Readers(lambda: there)

    before = evidence.read_inputs(plan, told)
    found = collected(there, plan, told, before)
    commit(places[1], 4, add("f4"))
    after = evidence.read_inputs(plan, told)

    assert before == {"0": SourceEnd(latest=line(4)), "1": SourceEnd(latest=line(4))}
    assert found.reached == {
        0: ReachedPosition(
            "delta", line(2), line(4), left_empty=True, measured=(line(2), line(4)), arrived=True
        ),
        1: ReachedPosition(
            "delta", line(2), line(4), left_empty=True, measured=(line(2), line(4)), arrived=False
        ),
    }
    assert found.arrived_rows == 7
    assert evidence.arrived(before, after) == ("source 1",)
    assert spark.asked_where == 1
    assert [sorted(r.slices) for r in spark.studies] == [[], ["arrived"]]
    assert spark.measures[0].study.slices["new"]["0"]["versions"] == [[3, ["f2", "f3"]]]


def test_nobody_asks_where_files_are_read_from(spark: Spark, tmp_path: Path) -> None:
    def looked_at() -> FlowSnapshot:
        raise AssertionError("nothing is to be looked at for files: the plan names them")

    file = tmp_path / "1.json"
    file.write_text("{}")
    source = {"source": 0, "location": str(tmp_path), "options": {}, "start": None, "waiting": [], "gone": []}
    plan = contents(source)
    told = Readers(looked_at)
    seen = evidence.read_inputs(plan, told)
    assert seen == {"0": (f"file://{file}",)}
    assert collected(snapshot(None, kind="files"), plan, told, seen).reached == {}
    assert spark.studies == []


@pytest.mark.parametrize(("strategy", "asked_for"), [("revert", ["new"]), ("full-refresh", ["new", "old"])])
def test_a_file_that_spark_ignores_is_asked_for_where_all_is_read_from_nothing(
    spark: Spark, monkeypatch: pytest.MonkeyPatch, strategy: str, asked_for: list[str]
) -> None:
    source = {"source": 0, "location": "/in", "options": {}, "start": None, "waiting": ["new"], "gone": []}
    plan = contents({**source, "ignored": ["old"]}, strategy=strategy)
    there = snapshot(None, kind="files")
    monkeypatch.setattr(evidence, "inspect_checkpoint", lambda _: there.checkpoint)
    found = collected(there, plan, Readers(lambda: there), {"0": ["new", "old"]})
    assert sorted(found.listed[0]) == sorted(found.planned[0]) == asked_for


def test_a_source_that_the_code_has_no_more_is_told_as_nothing(spark: Spark) -> None:
    told = Readers(lambda: snapshot())
    assert [told.find_reader(number) for number in ("2", "orders")] == [NO_READER, NO_READER]
    assert told.find_reader("0").format == "delta"
    assert spark.asked_where == 1


def test_a_topic_that_was_made_again_since_the_seal_is_told_by_the_id_that_was_sealed(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets may look like those of the plan; its records are others."""
    held = TopicFacts("id-2", {0: PartitionFacts(0, 15)}, plain=True)

    def answer(options: Any, *, positions: Any, noted: Any, count_up_to: int) -> KafkaFacts:
        return KafkaFacts(1, {"orders": held}, {"orders": None}, dict(noted or {}))

    monkeypatch.setattr(live_kafka, "read_topic_facts", answer)
    position = Position("0", "kafka", '{"orders":{"0":10}}', "", Precision.EXACT, True)
    was = KafkaFacts(1, {"orders": replace(held, topic_id="id-1")}, {"orders": None})
    sealed = sealing._input(SourceFacts(position, "orders", facts=was))
    assert sealed.topic_ids == {"orders": "id-1"}
    told = Readers(lambda: snapshot())
    assert evidence.remade(contents(codec.to_json(sealed)), told) == ("orders",)
    assert evidence._between(told, 0, sealed, '{"orders":{"0":10}}', '{"orders":{"0":15}}') is None
    anew = sealed.model_copy(update={"topic_ids": {"orders": "id-2"}})
    assert evidence.remade(contents(codec.to_json(anew)), told) == ()
    assert evidence._between(told, 0, anew, '{"orders":{"0":10}}', '{"orders":{"0":15}}') is not None


def progress(flow: str, batch: int, start: str | None) -> dict[str, Any]:
    body = {"batchId": batch, "sources": [{"startOffset": start}]}
    return {
        "event_type": "stream_progress",
        "origin": {"flow_name": flow},
        "details": {"stream_progress": {"progress": body}},
    }


FAILED = [progress("main.shop.t", 3, line(2)), progress("main.shop.other", 1, None)]
RESUMED = [progress("main.shop.t", 5, line(4)), progress("main.shop.t", 4, line(3))]


@pytest.mark.parametrize(
    ("updates", "batch", "start"),
    [
        (["u-1", "u-2"], 3, line(2)),
        (["u-2"], 4, line(3)),
        (["u-0", "u-2"], 4, line(3)),
        (["u-0"], None, None),
        ([], None, None),
    ],
    ids=[
        "the failed one had committed",
        "one alone",
        "the failed one did nothing",
        "nothing was due",
        "none",
    ],
)
def test_the_rerun_s_first_batch_is_that_of_all_its_updates(
    updates: list[str], batch: int | None, start: str | None
) -> None:
    """An attempt that failed after its first batch leaves that batch committed: the next one begins behind it."""
    told = {"u-0": [], "u-1": FAILED, "u-2": RESUMED}
    there = snapshot(line(4))
    client: Any = there.client
    client.events = lambda pipeline, filter, **_: told[filter.split("'")[1]]
    found = evidence.first_batch(there, updates)
    assert (found and found.batch, found and found.start_offsets) == (batch, batch and (start,))


@pytest.mark.parametrize(
    ("has_streams", "planned", "batch"), [(True, 1, None), (True, 3, 3), (False, 1, 3), (True, None, 3)]
)
def test_where_the_newest_batches_alone_are_kept_the_checkpoint_tells_of_the_first(
    has_streams: bool, planned: int | None, batch: int | None
) -> None:
    there = snapshot(line(4))
    flow: Any = there.flow
    client: Any = there.client
    flow.pipeline.workspace.has_streams = has_streams
    client.events = lambda *_, **__: FAILED
    found = evidence.first_batch(there, ["u-1"], planned=planned)
    assert (found and found.batch) == batch


# ---- sources that the checkpoint knows by names: readers and looks are told by their place in the code


def named(there: FlowSnapshot, *names: str) -> FlowSnapshot:
    sources = tuple(replace(s, name=n) for s, n in zip(there.checkpoint.sources, names, strict=True))
    return replace(there, checkpoint=replace(there.checkpoint, sources=sources))


def test_named_sources_are_measured_as_those_without_a_name(spark: Spark, places: tuple[Path, Path]) -> None:
    plan = contents({**of_delta(0, 2, 3), "source": "orders"}, {**of_delta(1, 2, 4), "source": "returns"})
    there = named(snapshot(line(4), line(4)), "orders", "returns")
    told = Readers(lambda: there)

    before = evidence.read_inputs(plan, told)
    found = collected(there, plan, told, before)
    commit(places[1], 4, add("f4"))

    assert before == {"0": SourceEnd(latest=line(4)), "1": SourceEnd(latest=line(4))}
    assert found.reached == {
        0: ReachedPosition(
            "delta", line(2), line(4), left_empty=True, measured=(line(2), line(4)), arrived=True
        ),
        1: ReachedPosition(
            "delta", line(2), line(4), left_empty=True, measured=(line(2), line(4)), arrived=False
        ),
    }
    assert found.arrived_rows == 7
    assert evidence.arrived(before, evidence.read_inputs(plan, told)) == ("source 1",)


def test_named_sources_that_stand_in_another_order_in_the_checkpoint_are_told_by_their_names(
    spark: Spark,
) -> None:
    """`returns` is the second in the code and the first in the checkpoint, and came less far."""
    plan = contents({**of_delta(0, 2, 4), "source": "orders"}, {**of_delta(1, 1, 3), "source": "returns"})
    there = named(snapshot(line(3), line(4)), "returns", "orders")
    told = Readers(lambda: there)
    found = collected(there, plan, told, evidence.read_inputs(plan, told))
    assert {n: (r.start, r.end, r.left_empty) for n, r in found.reached.items()} == {
        1: (line(2), line(4), True),
        0: (line(1), line(3), False),
    }
    assert [s.offset_json for s in found.old.sources] == [line(1), line(2)]


def test_files_of_named_sources_are_each_asked_for_where_they_were_read(tmp_path: Path) -> None:
    inputs, listed = [], {}
    for name in ("orders", "returns"):
        place = tmp_path / name
        place.mkdir()
        (place / "2.json").write_text("{}")
        listed[name] = (f"file://{place}/2.json",)
        inputs.append({"source": name, "location": str(place), "options": {}, "start": None, "waiting": [],
                       "gone": []})  # fmt: skip
    plan = contents(*inputs)
    there = named(snapshot(None, None, kind="files"), "returns", "orders")
    seen = evidence.read_inputs(plan, Readers(lambda: there))
    assert seen == {"0": listed["orders"], "1": listed["returns"]}
    found = evidence._list_expected_files(there.checkpoint, there.checkpoint, plan, seen, "same")
    assert found == {0: listed["returns"], 1: listed["orders"]}


def test_a_named_source_that_the_checkpoint_does_not_hold_is_not_taken_for_another(spark: Spark) -> None:
    plan = contents({**of_delta(0, 2, 4), "source": "orders"}, {**of_delta(1, 2, 4), "source": "returns"})
    there = named(snapshot(line(4), line(4)), "orders", "refunds")
    told = Readers(lambda: there)
    with refused("other_sources", Refused):
        collected(there, plan, told, {})


def test_readers_that_a_comparison_has_told_are_not_asked_again(spark: Spark) -> None:
    told = (SourceReader("delta", "/in", location="/in"),)
    known = readers.Readers(lambda: snapshot(line(2)))
    known.keep_answer(told)
    assert known.in_plan_order == told
    assert spark.asked_where == 0


def test_a_comparison_that_tells_of_no_reader_leaves_the_question(spark: Spark) -> None:
    known = readers.Readers(lambda: snapshot(line(2)))
    known.keep_answer(())
    assert len(known.in_plan_order) == 2
    assert spark.asked_where == 1


def test_what_a_plan_of_each_strategy_is_measured_from_is_known() -> None:
    executable = {s.value for s in EXECUTABLE}
    assert executable == set(REQUIRED)
    assert executable - evidence.SCOPES.keys() == {"top-up", "deduplicate"}, (
        "they run no batch: `corrections` measures them"
    )


def reading(*files: str) -> CheckpointReport:
    """Sources by index, each with the files of its log in one batch each."""
    logs = (
        Entries.from_entries(SourceEntry(f"file:///in/{name}", 1, n) for n, name in enumerate(names))
        for names in files
    )
    sources = (SourceProgress(n, "files", None, len(log) - 1, log) for n, log in enumerate(logs))
    return checkpoint(sources=tuple(sources))


@pytest.mark.parametrize(
    ("before", "after", "uneven"),
    [
        (("ab", "ab"), ("abc", "abc"), False),
        (("ab", "abc"), ("abc", "abc"), True),
        (("ab", "xy"), ("abc", "xyz"), False),
        (("ab",), ("ab", "ab"), True),
    ],
    ids=["alike", "one was ahead", "other folders", "a second reader begins"],
)
def test_a_folder_that_two_sources_read_to_different_files_is_seen(
    before: tuple[str, ...], after: tuple[str, ...], uneven: bool
) -> None:
    assert is_folder_read_unevenly("both", reading(*before), reading(*after)) is uneven


def test_an_empty_reset_read_all_input_and_wrote_beside_the_rows_of_before() -> None:
    held = Entries.from_entries([SourceEntry("file:///a", 1, 0)])
    progress = SourceProgress(0, "files", '{"logOffset":0}', 0, held)
    report = checkpoint(sources=(progress,))
    before = SinkReport("delta", "/w", 2, version=4)
    assert new_inputs("again", report, report) == new_inputs("new", report, report) == ("file:///a",)
    assert (measured_from("again", before), measured_from("new", before)) == (4, -1)
    files = (
        SinkReport("files", "/w", 0, 0, {0: ("a",)}),
        SinkReport("files", "/w", 1, 0, {0: ("a",), 1: ("b",)}),
    )
    assert (new_data_files("again", *files), new_data_files("new", *files)) == (("b",), ("a", "b"))
