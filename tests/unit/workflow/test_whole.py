"""Rows of before by files and commits, and how much input and table are compared whole."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.checkpoints.report import CheckpointReport, Entries, SourceEntry, SourceProgress
from recovery.contracts.amounts import Bound
from recovery.contracts.measured import Measured, MeasuredOutcome, NotWholeReason
from recovery.contracts.plan import PlanBody
from recovery.contracts.readers import SourceReader
from recovery.sinks.base import SinkReport
from recovery.sinks.live import delta
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts
from recovery.sources.live import kafka as live_kafka
from recovery.spark.api import WholeComparison, WholeInput
from recovery.verification.evidence import WholeFlow
from recovery.verification.outcome import outcome_of
from recovery.verification.words import Claim, FlowCode, headline, whole_findings
from recovery.workflow import whole
from tests.delta_tables import add, commit, remove, table
from tests.factories.judged import forecast_of
from tests.factories.plans import plan_contents, planned_input
from tests.unit.verification.world import World

FILES = ("part-0.parquet", "k=a b/part-1.parquet")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_bytes(b"12345")
    return tmp_path / "t"


def snapshot(place: Path, *more: str, kind: str = "files", version: int | None = None, **changes: Any) -> Any:
    """A table whose log names its files, and `more`."""
    files = tuple(f"file://{place}/{name}" for name in (*FILES, *more))
    sink = SinkReport(kind, str(place), 2, older=files if kind == "files" else (), version=version)
    flow = SimpleNamespace(name="c.s.f", dataset="c.s.t")
    given = {"sink": sink, "table_place": f"file:{place}", "flow": flow, **changes}
    return SimpleNamespace(**given)


CHANGES: dict[str, tuple[Callable[[Path], object], int]] = {
    "nothing": (lambda t: None, 0),
    "a new file": (lambda t: (t / "part-2.parquet").write_bytes(b"1"), 0),
    "gone": (lambda t: (t / FILES[0]).unlink(), 1),
    "grown": (lambda t: (t / FILES[1]).write_bytes(b"123456"), 1),
    "written again": (lambda t: os.utime(t / FILES[0], (1, 1)), 1),
}


@pytest.mark.parametrize(("change", "touched"), CHANGES.values(), ids=CHANGES.keys())
def test_data_files_of_before_are_the_same_or_they_were_touched(
    place: Path, change: Callable[[Path], object], touched: int
) -> None:
    there = snapshot(place)
    marks = whole.mark_files(there)
    assert marks is not None
    assert set(marks) == set(FILES)
    change(place)
    found = whole.old_files(there, there.sink, marks)
    assert (found.files, len(found.touched), found.problem) == (2, touched, "")


def test_a_data_file_that_the_log_names_no_more_is_touched(place: Path) -> None:
    before = snapshot(place)
    marks = whole.mark_files(before)
    after = snapshot(place)
    after.sink = replace(after.sink, older=after.sink.older[:1])
    assert whole.old_files(after, before.sink, marks).touched == (FILES[1],)


@pytest.mark.parametrize("marks", [None, {}])
def test_what_was_not_marked_before_is_not_known(place: Path, marks: Any) -> None:
    there = snapshot(place)
    assert whole.old_files(there, there.sink, marks).problem == whole.NOT_MARKED


def test_an_empty_table_has_no_file_to_be_touched(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    empty = replace(snapshot(tmp_path / "t").sink, older=())
    there = snapshot(tmp_path / "t", sink=empty)
    assert whole.old_files(there, empty, whole.mark_files(there)).files == 0


# commits after version 1 -> files taken away with their rows, rewritten
COMMITS: dict[str, tuple[list[list[dict[str, Any]]], tuple[int, int]]] = {
    "none": ([], (0, 0)),
    "rows came": ([[add("n")]], (0, 0)),
    "rewritten": ([[remove("a", dataChange=False), add("m", dataChange=False)]], (0, 1)),
    "deleted": ([[remove("a")]], (1, 0)),
    "a new one removed": ([[add("n")], [remove("n"), add("m")]], (0, 0)),
    "rows marked": ([[remove("a"), add("a", deletionVector={"pathOrInlineDv": "x"})]], (1, 0)),
}


@pytest.mark.parametrize(("commits", "taken"), COMMITS.values(), ids=COMMITS.keys())
def test_a_delta_table_tells_by_its_commits(
    tmp_path: Path, commits: list[list[dict[str, Any]]], taken: tuple[int, int]
) -> None:
    table(tmp_path, [[add("a")], [add("b")], *commits])
    for name in "abmn":
        (tmp_path / name).write_bytes(bytes(100))  # as the log says
    found = whole.old_files(
        snapshot(tmp_path, kind="delta"), SinkReport("delta", str(tmp_path), 1, version=1), None
    )
    assert (len(found.touched), found.rewritten) == taken
    assert found.versions == (1, 1 + len(commits))
    assert delta.bytes_of(str(tmp_path)) is not None


@pytest.mark.parametrize(
    ("path", "size", "touched"),
    [("a%20b", 100, ()), ("a%20b", 99, ("a b",)), ("a%20b", None, ("a b",)), ("file:PLACE/a%20b", 100, ())],
    ids=["as the log says", "of another size", "gone", "by its whole path"],
)
def test_data_files_of_a_delta_table_are_looked_at_beneath_its_log(
    tmp_path: Path, path: str, size: int | None, touched: tuple[str, ...]
) -> None:
    table(tmp_path, [[add(path.replace("PLACE", str(tmp_path)))], []])
    if size is not None:
        (tmp_path / "a b").write_bytes(bytes(size))
    there, before = snapshot(tmp_path, kind="delta"), SinkReport("delta", str(tmp_path), 1, version=0)
    assert whole.old_files(there, before, None).touched == touched
    table(tmp_path, [[add("s3://elsewhere/a")], []])
    assert whole.old_files(there, before, None).problem == whole.UNKNOWN_PLACE


def test_commits_that_the_log_no_longer_has_are_not_known(tmp_path: Path) -> None:
    for version in (3, 4):
        commit(tmp_path, version, add("a"))
    found = whole.old_files(
        snapshot(tmp_path, kind="delta"), SinkReport("delta", str(tmp_path), 1, version=1), None
    )
    assert "begins at version 3" in found.problem


# ---- the whole flow


def flow_over(place: Path, tmp_path: Path, *names: str, kind: str = "files") -> tuple[Any, PlanBody, Any]:
    """A flow that has read these input files, each of 10 bytes where it is there: snapshot, plan, old checkpoint."""
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    for name in names:
        if not name.startswith("gone"):
            (folder / name).write_bytes(b"0123456789")

    def report(count: int) -> CheckpointReport:
        entries = Entries.from_entries(
            SourceEntry(f"file://{folder}/{n}", 0, i) for i, n in enumerate(names[:count])
        )
        source = SourceProgress(0, kind, '{"logOffset":1}', 1, entries)
        return CheckpointReport("/c", "structured-streaming", 0, "q", 1, 1, (source,))

    contents = plan_contents(inputs=[planned_input(location=str(folder))])
    return snapshot(place, checkpoint=report(len(names))), contents, report(1)


@pytest.mark.parametrize(
    ("limit", "of_flow", "why"),
    [
        (1000, {}, None),
        (30, {}, None),
        (29, {}, NotWholeReason.OVER_BUDGET),
        (1000, {"c.s.f": 5}, NotWholeReason.OVER_BUDGET),
        (0, {"c.s.f": 1000}, None),
        (0, {"c.s.other": 1000}, NotWholeReason.OVER_BUDGET),
    ],
)
def test_input_and_table_are_compared_up_to_a_limit_that_a_flow_may_have_of_its_own(
    place: Path,
    tmp_path: Path,
    settings: Any,
    limit: int,
    of_flow: dict[str, int],
    why: NotWholeReason | None,
) -> None:
    settings.REPRISE_COMPARE_BYTES, settings.REPRISE_COMPARE_BYTES_OF = limit, of_flow
    there, contents, old = flow_over(place, tmp_path, "1.json", "2.json", "gone.json")
    told, asked = whole.input_of(there, contents, None, old)  # type: ignore[arg-type]
    assert told is not None
    assert (told.why, told.files, told.gone) == (why, 2, 1)
    assert (asked is None) is (why is not None)
    if asked is not None:
        assert told.size == 30
        assert sorted(Path(f).name for f in asked.files) == ["1.json", "2.json"]


def test_a_code_that_reads_other_sources_is_not_run_over_what_was_read_before(
    place: Path, tmp_path: Path
) -> None:
    there, contents, old = flow_over(place, tmp_path, "1.json", kind="kafka")
    told, asked = whole.input_of(there, contents, None, old)  # type: ignore[arg-type]
    assert told is not None
    assert (told.why, asked) == (NotWholeReason.OTHER_SOURCES, None)


def test_an_input_that_cannot_be_listed_takes_nothing_from_the_rest_of_the_proof(
    place: Path, tmp_path: Path
) -> None:
    there, contents, old = flow_over(place, tmp_path, "1.json")
    contents = plan_contents(inputs=[planned_input(location=str(tmp_path / "absent"))])
    told, asked = whole.input_of(there, contents, None, old)  # type: ignore[arg-type]
    assert told is not None
    assert (told.why, asked) == (NotWholeReason.NOT_READABLE, None)


def test_a_sink_that_is_no_table_is_not_compared_whole(place: Path, tmp_path: Path) -> None:
    there, contents, old = flow_over(place, tmp_path, "1.json")
    there.sink = replace(there.sink, declared="parquet")
    assert whole.input_of(there, contents, None, old) == (None, None)  # type: ignore[arg-type]


# ---- a topic that retention has cut

READER = SourceReader("kafka", options={"kafka.bootstrap.servers": "b:1", "subscribe": "t"})
NONE = {"rows": 0, "bound": "exact"}


def topic_input(
    place: Path, monkeypatch: pytest.MonkeyPatch, *, low: int
) -> tuple[WholeFlow | None, WholeInput | None]:
    """What a flow is compared over that has read a topic up to 100, where the topic begins at `low` now."""
    topic = TopicFacts("id", {0: PartitionFacts(low, 100)}, plain=True)
    there_now = KafkaFacts(1, {"t": topic}, {"t": None})
    monkeypatch.setattr(live_kafka, "read_topic_facts", lambda *_a, **_k: there_now)
    source = SourceProgress(0, "kafka", '{"t":{"0":100}}', None)
    report = CheckpointReport("/c", "structured-streaming", 0, "q", 1, 1, (source,))
    contents = plan_contents(inputs=[planned_input(kind="kafka", location="t")])
    readers: Any = SimpleNamespace(find_reader=lambda _n: READER)
    return whole.input_of(snapshot(place, checkpoint=report), contents, readers, report)


def topic_outcome(
    world: World, flow: WholeFlow | None, forecast: dict[str, Any], rows: int
) -> MeasuredOutcome:
    """All `rows` rows of the input that was compared are in the table."""
    evidence = world.evidence(whole_flow=flow)
    assert evidence.measure is not None
    measure = replace(evidence.measure, whole=WholeComparison(rows, rows, rows, rows, 0, 0, 0))
    return outcome_of(forecast_of(**forecast), world.criteria(), replace(evidence, measure=measure))


@pytest.mark.parametrize(
    "lost",
    [{"rows": None, "bound": "unknown"}, {"rows": 0, "bound": "estimate"}],
    ids=["not known", "perhaps none"],
)
@pytest.mark.parametrize(
    ("low", "claim"), [(0, Claim.ONCE), (60, Claim.GIVEN_UP)], ids=["all kept", "60 gone"]
)
def test_a_refresh_over_a_topic_that_has_lost_records_is_not_claimed_to_be_complete(
    place: Path, monkeypatch: pytest.MonkeyPatch, low: int, claim: Claim, lost: dict[str, Any]
) -> None:
    """The table was emptied, and the rows of the records that are gone left it. All that the topic still has is in the
    table, which says nothing of them."""
    flow, asked = topic_input(place, monkeypatch, low=low)
    assert asked is not None
    assert asked.slices["0"]["start"] == {"t": {"0": low}}
    rows = [str(n) for n in range(low, 100)]
    world = World("full-refresh", new=[[1, 2, 3]], listed=[[1, 2, 3]], key=["id"], expected=rows)
    found = topic_outcome(world, flow, {"lost": lost, "doubled": NONE}, len(rows))
    measured = Measured(**dict(found))
    assert headline(measured).claim is claim
    assert (FlowCode.GONE in {f.code for f in whole_findings(measured)}) is bool(low)


@pytest.mark.parametrize(
    ("low", "before", "bound"),
    [(0, 0, Bound.EXACT), (60, None, Bound.AT_LEAST)],
    ids=["all kept", "60 gone"],
)
def test_what_was_lost_before_is_not_known_of_a_topic_that_has_lost_records(
    place: Path, monkeypatch: pytest.MonkeyPatch, low: int, before: int | None, bound: Bound
) -> None:
    flow, _ = topic_input(place, monkeypatch, low=low)
    world = World(key=["id"], old_rows=["a"], expected=["b"])
    found = topic_outcome(world, flow, {"lost": NONE, "doubled": NONE}, 40)
    assert (found.lost_before, found.lost_bound) == (before, bound)
