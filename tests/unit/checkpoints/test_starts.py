"""Seeds at positions that somebody chose: what is read back says the same; what Spark cannot go on from is refused."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.checkpoints import filelog, inspect_checkpoint, seed
from recovery.checkpoints.report import SourceEntry
from recovery.checkpoints.seed import SourceStart
from recovery.checkpoints.uris import decode_uri
from recovery.contracts import codec
from recovery.contracts.steps import SeededSource
from recovery.errors import Refused
from tests.checkpoint_builder import STARTED_MS, Built, input_uri, put
from tests.refusals import refused
from tests.unit.checkpoints.seeding import free, tree

KAFKA = '{"t":{"0":7,"1":9}}'
DELTA = '{"sourceVersion":1,"reservoirId":"r","reservoirVersion":3,"index":-1,"isStartingVersion":false}'
SCHEMA_CHANGE = DELTA.replace('"sourceVersion":1', '"sourceVersion":3').replace('"index":-1', '"index":-20')
PER_BATCH = '{"offset":20,"timestamp":2000}'


def line(log_id: int) -> str:
    return f'{{"logOffset":{log_id}}}'


def uri(source: int, number: int) -> str:
    return decode_uri(input_uri(source, number))


def entry(source: int, number: int, log_id: int) -> SourceEntry:
    return SourceEntry(input_uri(source, number), STARTED_MS + number * 1000, log_id)


def with_lines(root: Path, *lines: str) -> None:
    """One more source for each line, after the file sources, in every offset file."""
    for file in (root / "offsets").glob("[0-9]*"):
        put(file, "\n".join([file.read_text(), *lines]))


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    """Three batches and a planned one; sources: files, Kafka, Delta, rate, rate-micro-batch, one of Python's."""
    root = tmp_path / "flow/0"
    Built(root, batches=3, planned=1).write()
    with_lines(root, KAFKA, DELTA, "7", PER_BATCH, '{"a": 1}')
    (root / "sources/1").mkdir()
    (root / "sources/1/0").write_bytes(b'\0v1\n{"t":{"0":0,"1":0}}')
    (root / "sources/3").mkdir()
    (root / "sources/3/0").write_text(f"v1\n{STARTED_MS}")
    return tmp_path / "flow"


def seeded(flow: Path, starts: Sequence[SourceStart], **words: Any) -> Path:
    plan = seed.plan_seed(inspect_checkpoint(str(flow)), starts=starts, **words)
    ready = seed.prepare_seed(str(flow), plan, recovery="R-1", fence=1, guard=free)
    return flow / str(seed.publish_checkpoint(str(flow), ready, guard=free))


def test_starts_where_every_source_stands_are_a_seed_without_starts_to_the_byte(flow: Path) -> None:
    sources = inspect_checkpoint(str(flow)).sources
    assert [s.kind for s in sources] == ["files", "kafka", "delta", "rate", "rate-micro-batch", "unknown"]
    where = [SourceStart(s.index, s.index, s.offset_json) for s in sources]
    with_starts = tree(seeded(flow, where))
    seed.undo_publish(str(flow), recovery="R-1", sink_head=2)
    ready = seed.prepare_seed(
        str(flow), seed.plan_seed(inspect_checkpoint(str(flow))), recovery="R-2", fence=1, guard=free
    )
    seed.publish_checkpoint(str(flow), ready, guard=free)
    without = tree(flow / "1")
    assert {**with_starts, "metadata": b""} == {**without, "metadata": b""}


MOVED: list[tuple[str, SourceStart, dict[str, str]]] = [
    ("Kafka", SourceStart(0, 1, '{"t":{"0":1,"1":12}}'), {"sources/0/0": '\0v1\n{"t":{"0":0,"1":0}}'}),
    ("a new Kafka source", SourceStart(0, None, KAFKA), {"sources/0/0": f"\0v1\n{KAFKA}"}),
    ("a new Kafka source by its options", SourceStart(0, None, None), {}),
    ("Kafka by its options again", SourceStart(0, 1, None), {}),
    ("Delta", SourceStart(0, 2, DELTA.replace("3", "1")), {}),
    ("a new Delta source", SourceStart(0, None, DELTA), {}),
    ("rate", SourceStart(0, 3, "2"), {"sources/0/0": f"v1\n{STARTED_MS}"}),
    ("rate-micro-batch", SourceStart(0, 4, '{"offset":0,"timestamp":0}'), {}),
    ("Python", SourceStart(0, 5, '{"a": 0}'), {}),
    (
        "files, none read",
        SourceStart(0, 0, line(-1), again=tuple(uri(0, n) for n in range(3))),
        {},
    ),
    ("new files, none skipped", SourceStart(0, None, None), {}),
    (
        "new files, two skipped",
        SourceStart(0, None, line(0), skip=(entry(9, 0, 0), entry(9, 1, 0))),
        {"sources/0/0": filelog.source_lines([entry(9, 0, 0), entry(9, 1, 0)]).decode()},
    ),
    (
        "files, the newest again",
        SourceStart(0, 0, line(1), again=(uri(0, 2),)),
        {f"sources/0/{n}": filelog.source_lines([entry(0, n, n)]).decode() for n in (0, 1)},
    ),
    (
        "files, the oldest again",
        SourceStart(0, 0, line(2), again=(uri(0, 0),)),
        {"sources/0/2.compact": filelog.source_lines([entry(0, 1, 2), entry(0, 2, 2)]).decode()},
    ),
    (
        "files, the planned one skipped",
        SourceStart(0, 0, line(3), skip=(entry(0, 3, 3),)),
        {f"sources/0/{n}": filelog.source_lines([entry(0, n, n)]).decode() for n in range(4)},
    ),
    (
        "files, one more skipped than any log entry has",
        SourceStart(0, 0, line(4), skip=(entry(0, 3, 3), entry(0, 4, 4))),
        {"sources/0/4.compact": filelog.source_lines([entry(0, n, n) for n in range(5)]).decode()},
    ),
]


@pytest.mark.parametrize(("start", "logs"), [m[1:] for m in MOVED], ids=[m[0] for m in MOVED])
def test_one_source_starts_where_it_is_told_and_its_log_fits(
    flow: Path, start: SourceStart, logs: dict[str, str]
) -> None:
    made = tree(seeded(flow, [start]))
    old = (flow / "0/offsets/2").read_text().split("\n")
    wanted = "\n".join([*old[:2], start.offset_json or "-"])
    assert made["offsets/1"] == made["offsets/2"] == wanted.encode()
    assert {n: d.decode() for n, d in made.items() if n.startswith("sources")} == logs
    assert inspect_checkpoint(str(flow)).blockers == ()


def test_sources_that_are_added_dropped_and_swapped_take_their_logs_along(flow: Path) -> None:
    made = seeded(
        flow,
        [
            SourceStart(0, 2, DELTA),
            SourceStart(2, 0, line(2)),
            SourceStart(1, None, '{"u":{"0":4}}'),
            SourceStart(3, 1, KAFKA),
        ],
    )
    assert (made / "offsets/2").read_text().split("\n")[2:] == [DELTA, '{"u":{"0":4}}', line(2), KAFKA]
    assert {n: d for n, d in tree(made).items() if n.startswith("sources")} == {
        "sources/1/0": b'\0v1\n{"u":{"0":4}}',
        "sources/3/0": b'\0v1\n{"t":{"0":0,"1":0}}',
        **{f"sources/2/{n}": filelog.source_lines([entry(0, n, n)]) for n in range(3)},
    }
    assert [s.kind for s in inspect_checkpoint(str(flow)).sources] == ["delta", "kafka", "files", "kafka"]


def test_named_sources_keep_their_names_wherever_they_stand(tmp_path: Path) -> None:
    root = tmp_path / "flow/0"
    Built(root, batches=2, sources=2, version=2, operators=()).write()
    for batch in (0, 1):
        text = (root / f"offsets/{batch}").read_text().replace("\n0:", "\nred:").replace("\n1:", "\nblue:")
        put(root / f"offsets/{batch}", text)
    for number, name in ((0, "red"), (1, "blue")):
        (root / f"sources/{number}").rename(root / f"sources/{name}")
    starts = [
        SourceStart(0, 1, line(1)),
        SourceStart(1, None, KAFKA, name="green"),
        SourceStart(2, 0, line(0), again=(uri(0, 1),)),
    ]
    made = seeded(tmp_path / "flow", starts)
    assert (made / "offsets/1").read_text().split("\n")[2:] == [
        f"blue:{line(1)}",
        f"green:{KAFKA}",
        f"red:{line(0)}",
    ]
    assert set(tree(made / "sources")) == {"blue/0", "blue/1", "green/0", "red/0"}
    assert inspect_checkpoint(str(tmp_path / "flow")).blockers == ()
    for name in ("", "green"):
        told = SourceStart(0, None, KAFKA, name=name or None)
        plain = tmp_path / f"plain {name}/0"
        Built(plain).write()
        where = plain.parent if name else tmp_path / "flow"
        with refused("names_no_source" if name else "name_missing", Refused):
            seed.plan_seed(inspect_checkpoint(str(where)), starts=[told])


@pytest.mark.parametrize("version", [1, 2])
def test_a_watermark_that_is_set_stands_in_headers_and_commit(tmp_path: Path, version: int) -> None:
    Built(tmp_path / "flow/0", version=version).write()
    where = [SourceStart(0, 0, line(2))]
    made = tree(seeded(tmp_path / "flow", where, watermark_ms=77))
    for name in ("offsets/1", "offsets/2"):
        old = json.loads((tmp_path / "flow/0/offsets/2").read_text().split("\n")[1])
        assert json.loads(made[name].split(b"\n")[1]) == {**old, "batchWatermarkMs": 77}
    assert json.loads(made["commits/2"].split(b"\n")[1])["nextBatchWatermarkMs"] == 77
    with pytest.raises(Refused, match="-1 is none"):
        seed.plan_seed(inspect_checkpoint(str(tmp_path / "flow")), watermark_ms=-1)


def test_a_watermark_ahead_of_its_commit_is_mended_by_one_that_is_set(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", operators=()).write()
    file = tmp_path / "flow/0/offsets/2"
    put(file, file.read_text().replace('"batchWatermarkMs":0', '"batchWatermarkMs":90'))
    with pytest.raises(Refused, match="begins at watermark 90"):
        seed.plan_seed(inspect_checkpoint(str(tmp_path / "flow")))
    seeded(tmp_path / "flow", [SourceStart(0, 0, line(2))], watermark_ms=5)
    assert inspect_checkpoint(str(tmp_path / "flow")).findings == ()


def test_after_batch_0_a_log_without_an_id_below_its_line_is_refused(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", batches=1, files_per_batch=2).write()
    both = SourceStart(0, 0, line(1), skip=(entry(0, 2, 1),))
    with refused("log_id_missing", Refused, names=("log id 0",)):
        seed.plan_seed(
            inspect_checkpoint(str(tmp_path / "flow")), starts=[replace(both, again=(uri(0, 0), uri(0, 1)))]
        )
    made = seeded(tmp_path / "flow", [replace(both, again=(uri(0, 0),))])
    assert [p.name for p in (made / "sources/0").iterdir()] == ["1.compact"]


REFUSED: list[tuple[str, list[SourceStart], str]] = [
    ("none at all", [], "given were none"),
    ("a gap", [SourceStart(0, 0, line(2)), SourceStart(2, 1, KAFKA)], "given were 0, 2"),
    ("one twice", [SourceStart(0, 0, line(2)), SourceStart(0, 1, KAFKA)], "given were 0, 0"),
    ("too many", [SourceStart(n, None, None) for n in range(1001)], "needs one start"),
    ("two of one", [SourceStart(0, 1, KAFKA), SourceStart(1, 1, KAFKA)], "Two starts continue one"),
    ("no such source", [SourceStart(0, 6, KAFKA)], "has no source 6"),
    ("of another kind", [SourceStart(0, 1, DELTA)], "it is of kind delta"),
    ("files for Kafka", [SourceStart(0, 1, line(2))], "it is of kind unknown"),
    ("Kafka for files", [SourceStart(0, 0, KAFKA)], "no logOffset"),
    ("malformed", [SourceStart(0, 1, '{"t":{"0":')], "cut short or is not JSON"),
    ("two lines", [SourceStart(0, 1, '{"t":\n{"0":1}}')], "it has two lines"),
    ("earliest by name", [SourceStart(0, 1, '{"t":{"0":-2,"1":3}}')], "partition t-0 needs its offset"),
    ("latest by name", [SourceStart(0, None, '{"t":{"0":-1}}')], "partition t-0 needs its offset"),
    ("Delta before its versions", [SourceStart(0, 2, DELTA.replace(":3", ":-1"))], "is no position"),
    ("Delta's base in memory", [SourceStart(0, 2, DELTA.replace("-1", "-100"))], "is no position"),
    ("Delta beyond any index", [SourceStart(0, 2, DELTA.replace("-1", str(2**63)))], "is no position"),
    ("Delta at a schema change", [SourceStart(0, None, SCHEMA_CHANGE)], "only sourceVersion 1"),
    ("rate", [SourceStart(0, 3, "-1")], "no number of seconds"),
    ("rate-micro-batch", [SourceStart(0, 4, '{"offset":-1,"timestamp":0}')], "offset is out of bounds"),
    ("Python", [SourceStart(0, 5, "7")], "no JSON object"),
    ("a new one of no known kind", [SourceStart(0, None, '{"a": 0}')], "it is new"),
    ("a new rate source", [SourceStart(0, None, "7")], "it is new"),
    ("a log id that none has", [SourceStart(0, 0, line(-2))], "no logOffset"),
    ("files beyond the line", [SourceStart(0, 0, line(1))], "has log id 2, which its line, at 1"),
    (
        "no file left",
        [SourceStart(0, 0, line(0), again=tuple(uri(0, n) for n in range(3)))],
        "no file is left",
    ),
    ("read again, never read", [SourceStart(0, 0, line(2), again=(uri(0, 3),))], "is not in its log"),
    ("skipped and read", [SourceStart(0, 0, line(2), skip=(entry(0, 1, 2),))], "in its log once already"),
    ("skipped twice", [SourceStart(0, None, line(0), skip=(entry(0, 1, 0),) * 2)], "in its log once already"),
    ("skipped beyond", [SourceStart(0, 0, line(2), skip=(entry(0, 3, 3),))], "has log id 3, which its line"),
    ("no line, files read", [SourceStart(0, 0, None)], "files of its log count as read"),
    ("files of Kafka", [SourceStart(0, 1, KAFKA, skip=(entry(0, 1, 0),))], "only a file source"),
    ("files of a new one", [SourceStart(0, None, None, skip=(entry(0, 1, 0),))], "only a file source"),
    ("again of a new one", [SourceStart(0, None, line(0), again=(uri(0, 1),))], "it is new, so no file"),
]


@pytest.mark.parametrize(("starts", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_a_start_that_spark_could_not_go_on_from_is_refused(
    flow: Path, starts: list[SourceStart], words: str
) -> None:
    with pytest.raises(Refused, match=words) as told:
        seed.plan_seed(inspect_checkpoint(str(flow)), starts=starts)
    assert told.value.sentence.endswith((".", "}"))


NOT_SEEDED = [
    ('{"version":1,"snapshot_id":5,"position":0,"scan_all_files":false}', "iceberg", "snapshots"),
    ('{"seqNum":5,"sourceVersion":1}', "auto-loader", "RocksDB"),
    ('{"sourceVersion":1,"seqNum":5,"fetchEpoch":2}', "pubsub", "RocksDB"),
    ('{"metadata":{},"s":{"iteratorType":"a","iteratorPosition":"b"}}', "kinesis", "documents alone"),
    ("7", "unknown", "cannot seed; it seeds"),
]


@pytest.mark.parametrize(("told", "kind", "why"), NOT_SEEDED)
def test_a_source_that_cannot_go_on_is_refused_with_the_reason_and_may_be_dropped(
    tmp_path: Path, told: str, kind: str, why: str
) -> None:
    Built(tmp_path / "flow/0").write()
    with_lines(tmp_path / "flow/0", told)
    report = inspect_checkpoint(str(tmp_path / "flow"))
    assert report.sources[1].kind == kind
    for starts in (None, [SourceStart(0, 1, told)]):
        with pytest.raises(Refused, match=why):
            seed.plan_seed(report, starts=starts)
    seeded(tmp_path / "flow", [SourceStart(0, 0, line(2))])
    assert [s.kind for s in inspect_checkpoint(str(tmp_path / "flow")).sources] == ["files"]


def test_a_start_is_sealed_and_read_back() -> None:
    start = SourceStart(1, 0, line(3), again=("file:///a b",), skip=(entry(0, 1, 3),), name="red")
    stored = json.loads(json.dumps(codec.to_json(start.to_args())))
    assert SourceStart.from_args(codec.read(SeededSource, stored)) == start
    short = codec.read(SeededSource, {"index": 0, "old": None, "offset_json": None})
    assert SourceStart.from_args(short) == SourceStart(0, None, None)


def test_a_seed_whose_log_differs_from_its_starts_is_removed(flow: Path) -> None:
    plan = seed.plan_seed(
        inspect_checkpoint(str(flow)), starts=[SourceStart(0, 0, line(2), again=(uri(0, 0),))], watermark_ms=5
    )
    for wrong in (replace(plan, committed_files=(3,)), replace(plan, offsets=(line(1),))):
        with refused("not_as_planned", Refused):
            seed.prepare_seed(str(flow), wrong, recovery="R-1", fence=1, guard=free)
        assert [p.name for p in flow.iterdir()] == ["0"]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Built, list[tuple[int | None, frozenset[int], int, bool]]]:
    """An old checkpoint, and of each new source: what it continues, which files it reads again, skips, a gap above."""
    batches, sources = draw(st.integers(1, 13)), draw(st.integers(1, 3))
    built = Built(
        Path(),
        batches,
        draw(st.integers(0, 1)),
        sources,
        (),
        files_per_batch=draw(st.integers(1, 3)),
        interval=draw(st.sampled_from([2, 3, 10])),
        version=draw(st.sampled_from([1, 2])),
    )
    files = batches * built.files_per_batch
    olds: list[int | None] = draw(st.permutations([*range(sources), None, None]))
    wanted = [
        (
            old,
            draw(st.frozensets(st.integers(0, files - 1))) if old is not None else frozenset(),
            draw(st.integers(0, 3)),
            draw(st.booleans()),
        )
        for old in olds[: draw(st.integers(1, len(olds)))]
    ]
    return built, wanted


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_whatever_the_starts_are_what_is_read_back_says_the_same(
    told: tuple[Built, list[tuple[int | None, frozenset[int], int, bool]]],
) -> None:
    built, wanted = told
    with tempfile.TemporaryDirectory() as folder:
        flow = Path(folder) / "flow"
        replace(built, root=flow / "0").write()
        before = {s.index: list(s.committed) for s in inspect_checkpoint(str(flow)).sources}
        starts, held, gaps = [], [], False
        for index, (old, again, skipped, above) in enumerate(wanted):
            kept = [] if old is None else [e for n, e in enumerate(before[old]) if n not in again]
            top = max((e.batch_id for e in kept), default=-1) + 1
            skip = [entry(8, n, top) for n in range(skipped)]
            newest = max((e.batch_id for e in (*kept, *skip)), default=-1)
            gone = () if old is None else tuple(decode_uri(before[old][n].path) for n in sorted(again))
            at = newest + 1 if above and newest >= 0 else newest
            starts.append(SourceStart(index, old, line(at), again=gone, skip=tuple(skip)))
            held.append({decode_uri(e.path) for e in (*kept, *skip)})
            gaps = gaps or {e.batch_id for e in (*kept, *skip)} != set(range(at + 1))
        if gaps and built.batches == 1:
            with refused("log_id_missing", Refused):
                seeded(flow, starts)
            return
        seeded(flow, starts)
        report = inspect_checkpoint(str(flow))
        assert report.findings == ()
        assert [s.offset_json for s in report.sources] == [s.offset_json for s in starts]
        assert [{decode_uri(e.path) for e in s.committed} for s in report.sources] == held
        for start, source in zip(starts, report.sources, strict=True):
            names = [p.name for p in (flow / f"1/sources/{start.index}").iterdir()]
            index = filelog.index_of(names)
            assert max(index, default=-1) == source.log_offset
            for interval in (filelog.DEFAULT_INTERVAL, built.interval):
                assert filelog.is_log_readable(index, interval)
