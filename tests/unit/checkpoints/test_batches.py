"""One batch read, two compared, the versions of a flow: whatever stands on disk."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoints import batch_descriptions
from recovery.checkpoints.batches import compare_batches, diff_batches, log_page, read_batch
from recovery.checkpoints.logpages import PAGE
from recovery.checkpoints.version_history import list_uses
from recovery.errors import NotFound, Unreachable
from tests.checkpoint_builder import CONF, STARTED_MS, Built, dumps, put
from tests.refusals import refused

FIRST, SECOND = (f"{n}f3c2c1e-5d0a-4b7e-9f59-3d1f0c7a9b12" for n in (1, 2))
KAFKA = '{"orders":{"0":123,"1":45}}'
KAFKA_LATER = '{"orders":{"0":143,"1":45,"2":7}}'


def built(where: Path, **values: object) -> str:
    Built(where, **values).write()  # type: ignore[arg-type]
    return str(where)


def offsets(where: Path, batch: int, *lines: str, **header: object) -> None:
    told = {"batchWatermarkMs": 0, "batchTimestampMs": STARTED_MS + batch, "conf": CONF, **header}
    put(where / f"offsets/{batch}", "\n".join(["v1", dumps(told), *lines]))


def names(entries: object) -> list[str]:
    return [batch_descriptions.file_name(e.path) for e in entries]  # type: ignore[attr-defined]


def test_a_batch_says_what_it_took_and_from_where_to_where(tmp_path: Path) -> None:
    found = read_batch(built(tmp_path, planned=1, sources=2, files_per_batch=2), 1)

    assert (found.planned, found.committed, found.format, found.commit_format) == (True, True, 1, 1)
    assert (found.planned_ms, found.watermark_ms, found.next_watermark_ms) == (STARTED_MS + 1, 0, 0)
    one = found.sources[1]
    assert (one.key, one.kind, one.begins_json, one.offset_json) == (
        "1", "files", '{"logOffset":0}', '{"logOffset":1}',
    )  # fmt: skip
    assert one.files is not None
    assert names(one.files.first) == ["part 000002.json", "part 000003.json"]
    assert batch_descriptions.describe_intake(one) == "2 files, part 000002.json to part 000003.json"
    assert batch_descriptions.describe_line(one.kind, one.offset_json) == "log entry 1"
    assert found.problems == ()
    assert (found.before, found.after) == (0, 2)


def test_a_planned_batch_is_not_committed_and_names_the_files_that_wait(tmp_path: Path) -> None:
    found = read_batch(built(tmp_path, planned=1), 3)

    assert (found.planned, found.committed, found.commit_format) == (True, False, None)
    assert batch_descriptions.describe_intake(found.sources[0]) == "1 file, part 000003.json"


def test_the_first_batch_begins_at_nothing(tmp_path: Path) -> None:
    source = read_batch(built(tmp_path), 0).sources[0]

    assert (source.begins, source.begins_json) == (True, None)
    assert batch_descriptions.describe_intake(source) == "1 file, part 000000.json"


@pytest.mark.parametrize("batch", [0, 8, 9, 10, 19, 24])
@pytest.mark.parametrize("purged", [False, True])
def test_files_are_found_in_compacted_entries_too(tmp_path: Path, batch: int, purged: bool) -> None:
    where = built(tmp_path, batches=25, files_per_batch=3)
    if purged:  # Spark deletes what a compacted entry holds, after a while
        for single in range(19):
            (tmp_path / f"sources/0/{single}").unlink(missing_ok=True)

    source = read_batch(where, batch).sources[0]

    assert source.files is not None
    assert names(source.files.first) == [f"part {n:06d}.json" for n in range(batch * 3, batch * 3 + 3)]
    assert source.files.why == ""


def test_where_the_batch_before_is_gone_nothing_is_guessed(tmp_path: Path) -> None:
    where = built(tmp_path)
    (tmp_path / "offsets/0").unlink()

    source = read_batch(where, 1).sources[0]

    assert (source.begins, source.files) == (False, None)
    assert batch_descriptions.describe_intake(source).startswith("not known")


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("offsets/2", "", "it is empty"),
        ("offsets/2", 'v1\n{"batchWater', "it is cut short or is not JSON"),
        ("offsets/2", "v9\n{}", "it is in format v9"),
        ("commits/2", "", "it is empty"),
        ("commits/2", "v1\n" + "[" * 100_000, "it is cut short or is not JSON"),
    ],
)
def test_damage_is_said_beside_what_can_still_be_read(
    tmp_path: Path, file: str, content: str, why: str
) -> None:
    where = built(tmp_path)
    put(tmp_path / file, content)

    found = read_batch(where, 2)

    assert [(p.file, p.why) for p in found.problems] == [(file, why)]
    assert (found.planned, found.committed) == (True, True)
    assert bool(found.sources) == file.startswith("commits")


@pytest.mark.parametrize("content", [None, "", "v1\n{}", "v1\nnot JSON"])
def test_a_damaged_log_entry_is_named(tmp_path: Path, content: str | None) -> None:
    where = built(tmp_path)
    if content is None:
        (tmp_path / "sources/0/1").unlink()
    else:
        put(tmp_path / "sources/0/1", content)

    files = read_batch(where, 1).sources[0].files

    assert files is not None
    assert files.count == 0
    assert (
        "sources/0/1 cannot be read" in files.why
        if content is not None
        else files.why == "log entry 1 is missing"
    )


def test_a_batch_that_is_not_there_is_one_sentence_with_those_that_are(tmp_path: Path) -> None:
    where = built(tmp_path)

    with refused("no_batch", NotFound, names=("Batch 7", "0 to 2")):
        read_batch(where, 7)
    with pytest.raises(Unreachable, match="does not exist"):
        read_batch(str(tmp_path / "no"), 0)


def test_the_newest_version_of_a_flow_is_read(tmp_path: Path) -> None:
    built(tmp_path / "0", batches=1)
    built(tmp_path / "1", batches=3)

    assert read_batch(str(tmp_path), 2).location.endswith("/1")


@given(after=st.integers(-1, 10**18), upto=st.integers(-(10**18), 10**18), junk=st.binary(max_size=200))
def test_no_offset_and_no_log_breaks_the_reading(
    tmp_path_factory: pytest.TempPathFactory, after: int, upto: int, junk: bytes
) -> None:
    where = tmp_path_factory.mktemp("ck")
    built(where, batches=2)
    offsets(where, 0, dumps({"logOffset": after}))
    offsets(where, 1, dumps({"logOffset": upto}))
    (where / "sources/0/1").write_bytes(junk)

    found = compare_batches(str(where), 0, 1)

    assert len(json.dumps(found.as_dict())) < 100_000
    assert batch_descriptions.describe_intake(found.after.sources[0])
    shutil.rmtree(where)


def test_a_kafka_line_is_kept_and_its_partitions_compared(tmp_path: Path) -> None:
    where = built(tmp_path, operators=())
    shutil.rmtree(tmp_path / "sources")
    offsets(tmp_path, 1, KAFKA)
    offsets(tmp_path, 2, KAFKA_LATER)

    found = compare_batches(str(where), 2, 1)

    source, step = found.after.sources[0], found.sources[0]
    assert (source.kind, source.offset_json) == ("kafka", KAFKA_LATER)
    assert batch_descriptions.describe_line("kafka", KAFKA) == "orders[0] at 123, orders[1] at 45"
    assert batch_descriptions.changed_partitions(step.before_json, step.after_json) == [
        ("orders[0]", 123, 143),
        ("orders[2]", None, 7),
    ]
    assert (
        batch_descriptions.describe_step(step)
        == batch_descriptions.describe_intake(source)
        == "20 offsets in 1 partition; 1 partition in one of them only"
    )


def test_two_batches_differ_in_position_files_header_and_operators(tmp_path: Path) -> None:
    where = built(tmp_path, batches=4, files_per_batch=2)
    offsets(
        tmp_path,
        3,
        '{"logOffset":3}',
        batchWatermarkMs=5000,
        conf={**CONF, "spark.sql.shuffle.partitions": "8"},
    )
    put(tmp_path / "commits/3", 'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a"],["b"]]}}')

    found = compare_batches(where, 3, 1)

    assert (found.before.number, found.after.number) == (1, 3)
    assert [(s.key, s.change) for s in found.sources] == [("0", "moved")]
    assert (
        batch_descriptions.describe_step(found.sources[0]) == "4 files, part 000004.json to part 000007.json"
    )
    assert [(m.name, m.before, m.after) for m in found.header] == [
        ("commit format", "1", "2"),
        ("next watermark", "0", "7"),
        ("watermark", "0", "5000"),
    ]
    assert [(m.name, m.before, m.after) for m in found.conf] == [("spark.sql.shuffle.partitions", "2", "8")]
    assert (found.operators, found.operators_untold) == ((), (1,))
    assert batch_descriptions.operators_untold(found).startswith("Batch 1 does not say")


V2 = 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":%s}'
V1 = 'v1\n{"nextBatchWatermarkMs":0}'


@pytest.mark.parametrize(
    ("before", "after", "moved", "says"),
    [
        (V1, V1, [], "Not recorded in either batch: only commits of state format 2 name operators."),
        (
            V1,
            V2 % '{"0":[["a"]]}',
            [],
            "Batch 1 does not say: only commits of state format 2 name operators.",
        ),
        (
            V2 % '{"0":[["a"]]}',
            V1,
            [],
            "Batch 2 does not say: only commits of state format 2 name operators.",
        ),
        (V2 % "{}", V2 % '{"0":[["a"],["b"]]}', [("0", None, "2")], ""),
        (V2 % '{"0":[["a"]]}', V2 % '{"0":[["c"]]}', [], ""),
        (V2 % "{}", V2 % "{}", [], ""),
    ],
)
def test_operators_are_compared_only_where_both_commits_name_them(
    tmp_path: Path, before: str, after: str, moved: list[object], says: str
) -> None:
    where = built(tmp_path)
    put(tmp_path / "commits/1", before)
    put(tmp_path / "commits/2", after)
    found = compare_batches(where, 1, 2)
    assert [(m.name, m.before, m.after) for m in found.operators] == moved
    assert batch_descriptions.operators_untold(found) == says


def test_a_batch_beside_itself_differs_in_nothing(tmp_path: Path) -> None:
    one = read_batch(built(tmp_path), 2)
    found = diff_batches(one, one)

    assert [s.change for s in found.sources] == ["same"]
    assert (found.header, found.conf, found.operators) == ((), (), ())
    assert found.operators_untold == (2,)


def test_sources_that_came_and_went_are_said(tmp_path: Path) -> None:
    where = built(tmp_path, sources=2)
    offsets(tmp_path, 2, '{"logOffset":2}')

    assert [(s.key, s.change) for s in compare_batches(where, 1, 2).sources] == [
        ("0", "moved"),
        ("1", "removed"),
    ]


def test_the_log_is_paged_newest_first_through_compacted_and_later_entries(tmp_path: Path) -> None:
    where = built(tmp_path, batches=25, files_per_batch=9)  # 225 files in 19.compact and five later entries

    pages = [log_page(where, "0", n) for n in (1, 2, 3)]

    assert [(p.number, p.pages, p.count) for p in pages] == [(n, 3, 225) for n in (1, 2, 3)]
    assert [n for p in pages for n in names(p.entries)] == [
        f"part {n:06d}.json" for n in reversed(range(225))
    ]
    assert len(pages[0].entries) == PAGE


@pytest.mark.parametrize(("asked", "given"), [(-5, 1), (0, 1), (99, 1)])
def test_a_page_that_is_not_there_is_the_nearest_one(tmp_path: Path, asked: int, given: int) -> None:
    assert log_page(built(tmp_path), "0", asked).number == given


def test_a_damaged_entry_ends_no_page(tmp_path: Path) -> None:
    where = built(tmp_path)
    put(tmp_path / "sources/0/1", "v1\nnot JSON")

    found = log_page(where, "0", 1)

    assert names(found.entries) == ["part 000002.json", "part 000000.json"]
    assert "sources/0/1 cannot be read" in found.why


@pytest.mark.parametrize("key", ["1", "..", "0/..", ""])
def test_a_source_without_a_log_is_refused(tmp_path: Path, key: str) -> None:
    where = built(tmp_path)

    with pytest.raises(NotFound, match="keeps no log"):
        log_page(where, key, 1)


FIRST, SECOND = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2))


def test_a_checkpoint_without_versions_has_no_uses(tmp_path: Path) -> None:
    built(tmp_path / "orders")
    assert list_uses(str(tmp_path / "orders")) == ()


def test_versions_say_when_they_were_used_and_which_was_seeded(tmp_path: Path) -> None:
    built(tmp_path / "0", planned=1, query_id=FIRST)
    seeded = tmp_path / "1"
    built(seeded, batches=4, query_id=SECOND)
    (seeded / "offsets/0").unlink()
    (seeded / "offsets/1").write_bytes((seeded / "offsets/2").read_bytes())
    offsets(seeded, 3, '{"logOffset":3}', batchTimestampMs=STARTED_MS + 60_000)
    (tmp_path / "2").mkdir()
    (tmp_path / ".reprise-x").mkdir()

    found = list_uses(str(tmp_path))

    assert [(v.number, v.first_batch, v.last_planned, v.last_committed, v.seeded_at) for v in found] == [
        (2, None, None, None, None),
        (1, 1, 3, 3, 2),
        (0, 0, 3, 2, None),
    ]
    assert [(v.from_ms, v.to_ms, v.query_id) for v in found[1:]] == [
        (STARTED_MS + 60_000, STARTED_MS + 60_000, SECOND),
        (STARTED_MS, STARTED_MS + 3, FIRST),
    ]


def test_a_version_that_was_mended_tells_what_is_of_the_version_before(tmp_path: Path) -> None:
    built(tmp_path / "0", planned=1)
    shutil.copytree(tmp_path / "0", tmp_path / "1")
    offsets(tmp_path / "1", 3, '{"logOffset":3}', batchTimestampMs=STARTED_MS + 9_000)

    mended, first = list_uses(str(tmp_path))

    assert (mended.copied_to, mended.seeded_at, mended.from_ms) == (2, None, STARTED_MS + 9_000)
    assert (first.copied_to, first.from_ms) == (None, STARTED_MS)


def test_a_version_that_cannot_be_read_says_why_and_a_missing_flow_has_none(tmp_path: Path) -> None:
    built(tmp_path / "0")
    put(tmp_path / "0/offsets/0", "junk")
    put(tmp_path / "0/metadata", "")

    found = list_uses(str(tmp_path))[0]

    assert (
        found.why
        == "offsets/0 cannot be read: it does not begin with a version line; metadata cannot be read: it is empty"
    )
    assert (found.last_committed, found.from_ms, found.to_ms) == (2, None, STARTED_MS + 2)
    assert list_uses(str(tmp_path / "no")) == ()


@pytest.mark.parametrize(("one", "other"), [(0, 29), (3, 27), (10, 11), (28, 29)])
def test_long_spans_count_what_they_do_not_show(tmp_path: Path, one: int, other: int) -> None:
    where = built(tmp_path, batches=30, files_per_batch=400)  # more than one block in a compacted entry

    files = compare_batches(where, one, other).sources[0].files

    assert files is not None
    assert files.count == (other - one) * 400
    assert names(files.first) == [f"part {n:06d}.json" for n in range((one + 1) * 400, (one + 1) * 400 + 100)]


def test_a_line_of_another_shape_is_counted_like_the_others(tmp_path: Path) -> None:
    where = built(tmp_path, batches=10, files_per_batch=200)
    log = tmp_path / "sources/0/9.compact"
    log.write_text(log.read_text().replace('"batchId":7}', '"batchId": 7}'))
    for single in range(9):
        (tmp_path / f"sources/0/{single}").unlink()

    files = compare_batches(where, 2, 9).sources[0].files

    assert files is not None
    assert (files.count, files.why) == (1400, "")
