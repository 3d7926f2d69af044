"""What the facts of a flow hold of its old code: its own sources and rows, wherever it reads otherwise."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.checkpoints.report import CheckpointReport, SourceProgress, StateOperator
from recovery.contracts.acceptance import Accepted
from recovery.contracts.amounts import Amount
from recovery.contracts.choices import Choices
from recovery.contracts.diagnosis import StoredDiagnosis
from recovery.contracts.readers import SourceReader
from recovery.errors import Refused, Unreachable
from recovery.sinks.base import SinkReport
from recovery.sources.base import Distance, InputSpans, Position, Precision, SourceFacts, StartChoice
from recovery.sources.input_ranges import InputRange
from recovery.spark.api import FROM_CODE, FROM_OLD_CODE, NAMED, WHOLE_ROW, Study, StudyRequest
from recovery.spark.asking import Service
from recovery.strategies.base import Facts, KeyKind
from recovery.strategies.catalogue import judge_all
from recovery.workflow import flow_snapshot, gather, inputs, sealing
from tests.refusals import refused

PATH = "/p/q.py"
SERVICE = Service("http://pipelines:8100", "")
ORDERS, RETURNS = (SourceReader("kafka", options={"subscribe": topic}) for topic in ("orders", "returns"))
LINE = '{"%s":{"0":10}}'
READS: dict[str, tuple[SourceReader, ...]] = {
    "old": (ORDERS,),
    "both": (ORDERS, RETURNS),
    "other": (RETURNS,),
    "same": (ORDERS,),
}


@pytest.mark.parametrize(
    ("old", "is_plain", "mode"),
    [("append", True, "append"), ("update", False, "update"), (None, False, "complete"), (None, True, None)],
)
def test_the_rows_of_state_are_judged_by_how_the_code_wrote_that_made_it(
    old: str | None, is_plain: bool, mode: str | None
) -> None:
    new, before = Study(output_mode="complete"), None if old is None else Study(output_mode=old)
    assert gather.mode_of_state(new, before, is_plain=is_plain) == mode


def study(request: StudyRequest) -> Study:
    """As many rows as offsets in the slices that were asked for."""
    code = request.files[PATH]
    rows = {
        label: sum(part["end"][t][p] - at for part in by_source.values() for t, held in part["start"].items()
                   for p, at in held.items())
        for label, by_source in request.slices.items()
    }  # fmt: skip
    return Study(operators=(), sources=READS[code], rows=rows, table_rows=10 if request.table else None)


def look(progress: SourceProgress, reader: SourceReader, **_: Any) -> SourceFacts:
    """A topic with 15 records, of which 10 were read unless it is new."""
    topic = reader.options["subscribe"]
    if topic == "gone":
        raise Unreachable("There is no topic gone.")
    begins = 10 if progress.offset_json else 0
    waiting = InputRange("kafka", start={topic: {"0": begins}}, end={topic: {"0": 15}})
    at = Position(progress.index, "kafka", progress.offset_json, topic, Precision.EXACT, True)
    return SourceFacts(
        at,
        topic,
        unread=Distance(rows=Amount(value=15 - begins)),
        spans=InputSpans(waiting=waiting, unread=waiting),
    )


@pytest.fixture(autouse=True)
def _around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "study", study)
    monkeypatch.setattr(inputs.probe, "probe_source", look)
    monkeypatch.setattr(flow_snapshot, "questions_service", lambda *_: SERVICE)


def snapshot_of(code: str, *topics: str) -> flow_snapshot.FlowSnapshot:
    """A flow with that code, whose checkpoint has read these topics."""
    progress = tuple(
        SourceProgress(n, "kafka", LINE % topic, position={topic: {"0": 10}})
        for n, topic in enumerate(topics)
    )
    report = CheckpointReport("/ck", "structured-streaming", 0, "q-1", 2, 2, progress)
    pipeline = SimpleNamespace(
        workspace=SimpleNamespace(name="w", roots=(), real_roots={}, has_streams=False),
        environment="test",
        pipeline_id="p",
        name="p",
    )
    flow: Any = SimpleNamespace(name="c.s.f", dataset="c.s.t", pipeline=pipeline)
    client: Any = None
    return flow_snapshot.FlowSnapshot(
        flow,
        client,
        {},
        {PATH: code},
        (PATH,),
        "/ck",
        report,
        "/t",
        SinkReport("delta", "/t", 2),
        {},
        None,
        None,
    )


def facts(new: str, old: str | None, *topics: str) -> Facts:
    return gather.facts_of(snapshot_of(new, *topics), {PATH: new}, None if old is None else {PATH: old})


def test_the_same_readers_are_looked_at_once() -> None:
    found = facts("same", "old", "orders")
    assert (found.old_sources, found.old_problem) == (None, "")
    assert found.old_counts is not None
    assert (found.counts.waiting, found.old_counts.waiting) == (5, 5)


def test_a_source_that_was_added_is_not_counted_with_the_old_code() -> None:
    found = facts("both", "old", "orders")
    assert found.old_sources is not None
    assert [s.location for s in found.old_sources] == ["orders"]
    assert found.old_counts is not None
    assert (found.counts.waiting, found.old_counts.waiting) == (20, 5)
    assert found.source_map == (0, None)


def test_a_source_that_was_removed_waits_for_the_old_code_alone() -> None:
    found = facts("old", "both", "orders", "returns")
    assert found.old_counts is not None
    assert (found.counts.waiting, found.old_counts.waiting) == (5, 10)
    assert {n: d.rows.value for n, d in found.unread_of.items() if d.rows} == {1: 5}
    assert found.yields_of == {1: 5}


@pytest.mark.parametrize(
    ("operators", "told"),
    [((), {1: 5}), (("dedupe",), {1: 5}), (("symmetricHashJoin",), {}), (None, {})],
    ids=["row by row", "at most", "a join", "not analysed"],
)
def test_what_waits_in_a_source_that_is_left_behind_is_counted_with_the_old_code(
    monkeypatch: pytest.MonkeyPatch, operators: tuple[str, ...] | None, told: dict[int, int]
) -> None:
    monkeypatch.setattr(gather, "study", lambda asked: replace(study(asked), operators=operators))
    assert facts("old", "both", "orders", "returns").yields_of == told


def test_of_a_source_that_is_left_behind_no_more_is_counted_than_was_allowed(settings: Any) -> None:
    settings.REPRISE_COUNT_BYTES = 1
    found = facts("old", "both", "orders", "returns")
    assert (found.yields_of, list(found.unread_of)) == ({}, [1])


def test_a_source_of_the_old_code_that_cannot_be_looked_at_stops_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = replace(study(request("old")), sources=(replace(ORDERS, options={"subscribe": "gone"}),))
    monkeypatch.setattr(gather, "study", lambda asked: gone if asked.files[PATH] == "old" else study(asked))
    found = facts("same", "old", "orders")
    assert (found.old_sources, "topic gone" in found.old_problem) == ((), True)
    assert found.old_counts is not None
    assert (found.counts.waiting, found.old_counts.waiting) == (5, None)


def request(code: str) -> StudyRequest:
    return StudyRequest(SERVICE, {PATH: code}, "", (), {}, "c", "s", "f")


@pytest.mark.parametrize("strategy", ["continue", "revert"])
@pytest.mark.parametrize(
    ("patch", "then"),
    [({PATH: "a\nb\n"}, "a\r\nb\r\n"), ({PATH: "a\nc\n"}, "a\r\nc\r\n"), ({}, "a\r\nb\r\n")],
)
def test_a_patch_reaches_the_plan_in_the_line_ends_of_its_file(
    monkeypatch: pytest.MonkeyPatch, strategy: str, patch: dict[str, str], then: str
) -> None:
    seen: list[dict[str, str]] = []

    def facts_of(snapshot: Any, new: dict[str, str], old: dict[str, str], **_: Any) -> Any:
        seen.append(old if strategy == "revert" else new)
        raise Unreachable("That was all.")

    snapshot = snapshot_of("a\r\nb\r\n", "orders")
    monkeypatch.setattr(gather, "read_flow_snapshot", lambda flow: snapshot)
    monkeypatch.setattr(gather, "facts_of", facts_of)
    monkeypatch.setattr(gather, "find_shared_storage", lambda *a, **b: None)
    monkeypatch.setattr(gather, "last_good_code", lambda snapshot: dict(snapshot.code))
    with pytest.raises(Unreachable, match="That was all"):
        gather.gather(snapshot.flow, strategy=strategy, patch=patch)
    assert seen == [{PATH: then}]


def test_without_the_old_code_there_is_nothing_of_it() -> None:
    found = facts("both", None, "orders")
    assert (found.old_code, found.old_counts, found.old_sources) == (None, None, None)


@pytest.mark.parametrize(
    ("strategy", "topics"), [("revert", ["orders"]), ("continue", ["orders", "returns"])]
)
def test_a_plan_names_the_inputs_of_the_code_that_it_runs(strategy: str, topics: list[str]) -> None:
    found = facts("both", "old", "orders")
    option = next(o for o in judge_all(found) if o.strategy == strategy)
    recovery: Any = SimpleNamespace(
        label="R-1", diagnosis_value=StoredDiagnosis(), choices={}, chosen=Choices()
    )
    contents = sealing.build(recovery, snapshot_of("both", "orders"), found, option, {}, Accepted())
    assert [source.location for source in contents.inputs] == topics
    assert [position.location for position in contents.positions] == topics


@pytest.mark.parametrize("rehearsed", [False, True])
def test_a_plan_notes_whether_its_rows_were_rehearsed(*, rehearsed: bool) -> None:
    found = facts("both", "old", "orders")
    found = replace(found, counts=replace(found.counts, rehearsed=rehearsed))
    option = next(o for o in judge_all(found) if o.strategy == "continue")
    recovery: Any = SimpleNamespace(
        label="R-1", diagnosis_value=StoredDiagnosis(), choices={}, chosen=Choices()
    )
    contents = sealing.build(recovery, snapshot_of("both", "orders"), found, option, {}, Accepted())
    assert contents.rehearsed is rehearsed


@pytest.mark.parametrize("name", [None, "orders"])
def test_a_wish_that_cannot_be_met_is_refused_whether_the_checkpoint_names_its_source_or_not(
    monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    """Wishes go by the place in the code: a start that nobody could look at would silently be the committed one."""

    def unmet(
        progress: SourceProgress, reader: SourceReader, *, wanted: Any = None, **more: Any
    ) -> SourceFacts:
        found = look(progress, reader, **more)
        at = replace(found.position, source=progress.name or progress.index)
        return replace(found, position=at, problem="Kafka cannot be asked." if wanted else None)

    monkeypatch.setattr(inputs.probe, "probe_source", unmet)
    there = snapshot_of("same", "orders")
    (only,) = there.checkpoint.sources
    there = replace(there, checkpoint=replace(there.checkpoint, sources=(replace(only, name=name),)))
    with refused("no_such_position", Refused):
        gather.facts_of(there, {PATH: "same"}, None, wishes={"0": StartChoice(latest=True)})
    assert gather.facts_of(there, {PATH: "same"}, None).sources[0].problem is None


COLUMNS = ("customer_id", "country")


@pytest.mark.parametrize(
    ("old", "new", "named", "key", "kind"),
    [
        (("customer_id",), None, (), ("customer_id",), KeyKind.OLD_CODE),
        (("Customer_ID",), None, (), ("Customer_ID",), KeyKind.OLD_CODE),
        (("hidden",), None, (), (), KeyKind.WHOLE_ROW),
        (None, None, (), (), KeyKind.WHOLE_ROW),
        (("customer_id",), ("country",), (), ("country",), KeyKind.CODE),
        (("customer_id",), None, ("country",), ("country",), KeyKind.NAMED),
        (("customer_id",), ("country",), ("country",), ("country",), KeyKind.CODE),
    ],
    ids=[
        "taken out", "in another case", "not yielded any more", "there was none", "another one in its place",
        "a person names another", "a person names the code's own",
    ],
)  # fmt: skip
def test_the_key_of_a_dropduplicates_that_was_taken_out_is_taken(
    monkeypatch: pytest.MonkeyPatch,
    old: tuple[str, ...] | None,
    new: tuple[str, ...] | None,
    named: tuple[str, ...],
    key: tuple[str, ...],
    kind: KeyKind,
) -> None:
    def keyed(asked: StudyRequest) -> Study:
        own = old if asked.files[PATH] == "old" else new
        told = asked.key or own or ()
        whence = NAMED if asked.key else FROM_CODE if own else WHOLE_ROW
        return replace(study(asked), operators=(), columns=COLUMNS, dedupe=own, key=told, key_from=whence)

    monkeypatch.setattr(gather, "study", keyed)
    found = gather.facts_of(snapshot_of("same", "orders"), {PATH: "same"}, {PATH: "old"}, key=named)
    assert (found.new_code.key, found.new_code.key_kind) == (key, kind)
    assert (found.new_code.key_from == FROM_OLD_CODE) is (kind is KeyKind.OLD_CODE)


@pytest.mark.parametrize(
    ("state", "old", "new", "drops"),
    [
        (("dedupe",), None, (), True),
        ((), ("dedupe",), (), True),
        (("dedupe", "dedupe"), None, ("dedupe",), True),
        (("dedupeWithinWatermark",), None, ("dedupe",), True),
        (("dedupe",), None, ("dedupe",), False),
        (("globalLimit",), ("globalLimit",), (), False),
        (("dedupe",), None, None, False),
    ],
    ids=[
        "by its state", "by the old code", "one of two", "another one in its place", "stays", "no dropDuplicates",
        "the code cannot be analysed",
    ],
)  # fmt: skip
@pytest.mark.parametrize("declared", ["", "kafka"])
def test_a_dropduplicates_that_is_taken_out_is_noticed_at_every_sink(
    monkeypatch: pytest.MonkeyPatch,
    state: tuple[str, ...],
    old: tuple[str, ...] | None,
    new: tuple[str, ...] | None,
    drops: bool,
    declared: str,
) -> None:
    def told(asked: StudyRequest) -> Study:
        return replace(study(asked), operators=old if asked.files[PATH] == "old" else new, columns=COLUMNS)

    monkeypatch.setattr(gather, "study", told)
    there = snapshot_of("same", "orders")
    kept = tuple(StateOperator(n, name, 2, rows=3) for n, name in enumerate(state))
    there = replace(
        there,
        checkpoint=replace(there.checkpoint, state_operators=kept),
        sink=replace(there.sink, declared=declared),
    )
    found = gather.facts_of(there, {PATH: "same"}, {PATH: "old"} if old is not None else None)
    assert found.drops_dedupe is drops


@pytest.mark.parametrize(
    ("state", "key", "kind"),
    [
        (("customer_id",), ("customer_id",), KeyKind.STATE),
        (("country",), (), KeyKind.WHOLE_ROW),
        (("hidden",), (), KeyKind.WHOLE_ROW),
        ((), (), KeyKind.WHOLE_ROW),
    ],
    ids=["yielded", "computed by the code", "not yielded", "not known"],
)
def test_the_key_of_a_state_is_taken_where_the_last_good_code_is_not_known(
    monkeypatch: pytest.MonkeyPatch, state: tuple[str, ...], key: tuple[str, ...], kind: KeyKind
) -> None:
    def keyed(asked: StudyRequest) -> Study:
        whence = NAMED if asked.key else WHOLE_ROW
        told = replace(study(asked), operators=(), columns=COLUMNS, computed=("country",))
        return replace(told, key=asked.key or (), key_from=whence)

    monkeypatch.setattr(gather, "study", keyed)
    there = snapshot_of("same", "orders")
    kept = (StateOperator(0, "dedupe", 2, key_columns=state, rows=3),)
    there = replace(there, checkpoint=replace(there.checkpoint, state_operators=kept))
    found = gather.facts_of(there, {PATH: "same"}, None)
    assert (found.new_code.key, found.new_code.key_kind) == (key, kind)
    assert found.drops_dedupe
