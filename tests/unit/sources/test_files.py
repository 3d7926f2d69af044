"""What a file source has read, what waits, and how places are written."""

import os
from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.report import Entries, SourceEntry, SourceProgress
from recovery.checkpoints.uris import canonical_uri, decode_uri, encode_uri
from recovery.errors import Unreachable
from recovery.sources.base import InputFile, Precision, SourceFacts
from recovery.sources.file_facts import MAX_FILE_AGE_MS, max_age_ms
from recovery.sources.files import source_facts
from recovery.sources.live.files import glob_pattern, is_hidden_name, list_files
from tests.checkpoint_builder import Built
from tests.listed_inputs import LISTED, ListedInput, put_files
from tests.refusals import refused

DAY = 24 * 3600 * 1000


def progress(*names: str, offset: str | None = '{"logOffset":0}') -> SourceProgress:
    entries = Entries.from_entries(SourceEntry(f"file:///in/{n}", 10 * DAY, i) for i, n in enumerate(names))
    return SourceProgress(0, "files", offset, len(names) - 1, entries)


def file(name: str, mtime_ms: int = 10 * DAY) -> InputFile:
    return InputFile(f"file:///in/{name}", 100, mtime_ms)


def facts(done: SourceProgress, *there: InputFile) -> SourceFacts:
    return source_facts(done, there, location="/in", max_files_per_trigger=2)


def test_a_position_is_said_in_people_s_words() -> None:
    found = facts(progress("a%20b", "c"), file("c"), file("a b"), file("d"))
    assert found.position.label == "file 2 of 3, c"
    assert found.position.precision is Precision.EXACT
    assert (found.position.earliest, found.position.latest) == ("c", "d")
    assert [f.path for f in found.processed] == ["file:///in/a b", "file:///in/c"]
    assert [f.path for f in found.waiting] == ["file:///in/d"]
    assert found.max_files_per_trigger == 2


def test_nothing_read_yet_is_said_too() -> None:
    nothing = SourceProgress(0, "files", None)
    found = facts(nothing, file("a", 5), file("b", 1))
    assert found.position.label == "nothing read yet"
    assert [f.path[-1] for f in found.waiting] == ["b", "a"]


def test_processed_files_that_are_gone_are_named_and_still_counted() -> None:
    found = facts(progress("a", "b"), file("b"), file("c"))
    assert found.gone == ("file:///in/a",)
    assert [f.path[-1] for f in found.processed] == ["b"]
    assert found.position.label == "file 2 of 3, b"


def test_waiting_files_come_by_time_and_then_in_listing_order() -> None:
    there = [
        file("z", 10 * DAY + 2),
        file("q", 10 * DAY + 1),
        file("b", 10 * DAY + 1),
        file("a", 10 * DAY + 3),
    ]
    assert [f.path[-1] for f in facts(progress("x"), *there).waiting] == ["q", "b", "z", "a"]


def test_a_file_too_old_for_spark_never_waits() -> None:
    edge = 10 * DAY - MAX_FILE_AGE_MS
    found = facts(progress("x"), file("late", edge - 1), file("just", edge))
    assert [f.path for f in found.waiting] == ["file:///in/just"]
    assert [f.path for f in found.ignored] == ["file:///in/late"]
    first = facts(SourceProgress(0, "files", None), file("late", 1), file("new", 100 * DAY))
    assert len(first.waiting) == 2  # a new checkpoint takes all of them


def test_a_file_written_again_under_its_name_is_not_new() -> None:
    assert facts(progress("a"), file("a", 99 * DAY)).waiting == ()


def at(**times: int) -> SourceProgress:
    """Files read one after the other, with their times in days."""
    log = (SourceEntry(f"file:///in/{n}", day * DAY, i) for i, (n, day) in enumerate(times.items()))
    return SourceProgress(
        0, "files", f'{{"logOffset":{len(times) - 1}}}', len(times) - 1, Entries.from_entries(log)
    )


@pytest.mark.parametrize(
    ("done", "there", "waiting", "ignored"),
    [
        ({"a": 10, "b": 39}, {"a": 40, "b": 39}, "a", ""),  # forgotten, and written again
        ({"a": 33, "b": 39}, {"a": 40, "b": 39}, "", ""),  # still known: newer than b less 7 days
        ({"a": 32, "b": 39}, {"a": 40, "b": 39}, "", ""),  # just so
        ({"a": 10, "b": 39}, {"a": 31, "b": 39}, "", ""),  # forgotten, and written again too long ago
        ({"a": 10, "b": 39}, {"a": 10, "b": 39}, "", ""),  # as it was read
        ({"a": 10}, {"a": 30, "b": 20}, "ba", ""),  # the batch that takes b makes Spark forget a
        ({"a": 10}, {"a": 30, "b": 17}, "b", ""),  # b does not
        ({"a": 10, "b": 39}, {"a": 40, "b": 39, "c": 1}, "a", "c"),
    ],
)
def test_a_file_that_spark_has_forgotten_comes_again_once_it_is_written_again(
    done: dict[str, int], there: dict[str, int], waiting: str, ignored: str
) -> None:
    found = facts(at(**done), *(file(n, day * DAY) for n, day in there.items()))
    assert "".join(f.path[-1] for f in found.waiting) == waiting
    assert "".join(f.path[-1] for f in found.ignored) == ignored
    assert found.position.label.startswith(f"file {len(done)} of {len({*done, *waiting})}, ")


def test_of_a_file_that_was_read_twice_spark_remembers_the_later_time() -> None:
    log = [
        SourceEntry(f"file:///in/{n}", d * DAY, i) for i, (n, d) in enumerate([("a", 1), ("b", 9), ("a", 9)])
    ]
    done = SourceProgress(0, "files", '{"logOffset":2}', 2, Entries.from_entries(log))
    assert facts(done, file("a", 9 * DAY), file("b", 9 * DAY)).waiting == ()


def test_with_latest_first_the_newest_waits_first_and_none_is_too_old() -> None:
    there = [file("b", 2), file("c", 3), file("d", 3), file("e", 4)]
    options = {"latestFirst": "true", "maxFilesPerTrigger": "1"}
    found = source_facts(at(a=50), there, location="/in", max_files_per_trigger=1, options=options)
    assert "".join(f.path[-1] for f in found.waiting) == "ecdb"


def test_with_file_name_only_a_file_of_a_known_name_is_never_read() -> None:
    there = [file("d=1/a"), file("d=2/a"), file("d=2/b")]
    found = source_facts(
        progress("d=1/a"), there, location="/in", max_files_per_trigger=None, options={"fileNameOnly": "true"}
    )
    assert [f.path for f in found.waiting] == ["file:///in/d=2/b"]
    assert [f.path for f in found.ignored] == ["file:///in/d=2/a"]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/a/b", "file:///a/b"),
        ("file:/a/b", "file:///a/b"),
        ("file:///a/b", "file:///a/b"),
        ("file://localhost/a/b", "file:///a/b"),
        ("FILE:/a/b", "file:///a/b"),
        ("/a/b%20c d", "file:///a/b%20c d"),
        ("s3a://bucket/a b", "s3a://bucket/a b"),
        ("hdfs://host:8020/a:b", "hdfs://host:8020/a:b"),
        ("/a/x:y", "file:///a/x:y"),
    ],
)
def test_a_place_has_one_form(path: str, uri: str) -> None:
    assert canonical_uri(path) == uri
    assert canonical_uri(canonical_uri(path)) == uri


def test_a_path_of_spark_s_log_is_decoded_once() -> None:
    assert decode_uri("file:///a/f%2520g%20h+i.json") == "file:///a/f%20g h+i.json"


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [("_a", True), (".a", True), ("_a=1", False), ("a", False), ("a._COPYING_", True), ("_metadata", False)],
)
def test_names_that_spark_does_not_list(name: str, is_hidden: bool) -> None:
    assert is_hidden_name(name) == is_hidden


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.json", "a.json", "a.jso"),
        ("a?c", "abc", "ac"),
        ("[a-c]*", "b1", "d1"),
        ("[!a]b", "cb", "ab"),
        ("[^a]b", "cb", "ab"),
        ("{x,y*}.gz", "yes.gz", "z.gz"),
        ("a\\*b", "a*b", "axb"),
        ("a.b(c)+", "a.b(c)+", "axb(c)+"),
        ("[", "[", "a"),
        ("{a", "{a", "a"),
    ],
)
def test_wildcards_are_hadoop_s(glob: str, yes: str, no: str) -> None:
    assert glob_pattern(glob).fullmatch(yes)
    assert not glob_pattern(glob).fullmatch(no)


@pytest.mark.parametrize("listed", LISTED, ids=[listed.name for listed in LISTED])
def test_a_listing_is_what_spark_was_seen_to_list(tmp_path: Path, listed: ListedInput) -> None:
    put_files(tmp_path)
    files = sorted(list_files(f"{tmp_path}/{listed.path}", options=listed.options), key=lambda f: f.mtime_ms)
    assert [f.path.removeprefix(f"file://{tmp_path}/") for f in files] == list(listed.files)


def test_a_place_that_is_not_there_is_refused_and_an_empty_wildcard_is_not(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="does not exist"):
        list_files(str(tmp_path / "no"), options={})
    assert list_files(str(tmp_path / "no*"), options={}) == ()


def test_a_listing_says_size_time_and_canonical_place(tmp_path: Path) -> None:
    (tmp_path / "a b.json").write_text("12345")
    os.utime(tmp_path / "a b.json", ns=(0, 1_700_000_000_123_456_789))
    wanted = (InputFile(f"file://{tmp_path}/a b.json", 5, 1_700_000_000_123),)
    for form in (
        str(tmp_path),
        f"file:{tmp_path}",
        f"file://{tmp_path}/",
        f"{tmp_path}/*.json",
        f"{tmp_path}/a b.json",
    ):
        assert list_files(form, options={}) == wanted


def test_a_symlink_loop_among_inputs_ends(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(list_files(str(tmp_path), options={})) == 1


def test_the_table_of_another_stream_is_read_by_its_log(tmp_path: Path) -> None:
    from tests.checkpoint_builder import sink_log

    sink_log(tmp_path, 2)
    (tmp_path / "stray.parquet").write_text("not in the log")
    assert [f.path for f in list_files(str(tmp_path), options={})] == [
        f"file://{tmp_path}/part-{n}.parquet" for n in range(3)
    ]


def test_below_a_wildcard_no_table_is_read_by_its_log(tmp_path: Path) -> None:
    from tests.checkpoint_builder import sink_log

    for name in ("t1", "t2"):
        sink_log(tmp_path / name, 1)
        (tmp_path / name / "stray.parquet").write_text("not in the log")
    found = [f.path.removeprefix(f"file://{tmp_path}/") for f in list_files(f"{tmp_path}/t*", options={})]
    assert {"t1/stray.parquet", "t2/stray.parquet"} <= set(found)


@pytest.mark.parametrize("options", [{}, {"pathGlobFilter": "[z-a]*"}])
def test_a_pattern_that_cannot_be_read_is_said(tmp_path: Path, options: dict[str, str]) -> None:
    (tmp_path / "a").write_text("")
    with refused("bad_pattern", Unreachable, names=("[z-a]*",)):
        list_files(str(tmp_path) if options else f"{tmp_path}/[z-a]*", options=options)


def test_a_name_that_is_not_utf_8_is_said_with_what_to_do(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")).write_text("x")
    with refused("name_not_utf8", Unreachable, names=(r"caf\udce9.csv",)):
        list_files(str(tmp_path), options={})


def test_log_and_listing_meet_on_the_same_names(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=2, planned=1).write()
    done = inspect_checkpoint(str(tmp_path / "ck")).sources[0]
    there = [InputFile(f"file:///data/in0/part {n:06d}.json", 1, 1_790_000_000_000 + n) for n in range(4)]
    found = source_facts(done, there, location="/data/in0", max_files_per_trigger=None)
    assert (len(found.processed), len(found.waiting), found.gone) == (2, 2, ())


@pytest.mark.parametrize(
    "uri",
    [
        "file:///in/part%20000001.json",
        "file:///in/50%25.json",
        "file:///in/a%5B1%5D%23b%3F.json",
        "file:///in/k=1/a+b&c,d;e:f@g!h'i(j)*~.json",
        "file:///in/Zürich/東京.json",
        "s3a://bucket/in/a%20b.json",
    ],
)
def test_a_decoded_uri_is_encoded_again_as_spark_wrote_it(uri: str) -> None:
    assert encode_uri(decode_uri(uri)) == uri


@pytest.mark.parametrize(
    ("options", "ms"),
    [
        ({}, 7 * DAY),
        ({"maxFileAge": "30d"}, 30 * DAY),
        ({"MAXFILEAGE": " 90 MIN "}, 5_400_000),
        ({"maxFileAge": "1500"}, 1500),
        ({"maxFileAge": "2000us"}, 2),
        ({"maxFileAge": "soon"}, 7 * DAY),
        ({"latestFirst": "true", "maxFileAge": "1h"}, 3_600_000),
        ({"latestFirst": "true", "maxFilesPerTrigger": "1", "maxFileAge": "1h"}, 2**63 - 1),
        ({"latestFirst": "TRUE", "maxBytesPerTrigger": "1g"}, 2**63 - 1),
    ],
)
def test_how_old_a_file_may_be_is_said_by_the_reader_as_spark_takes_it(
    options: dict[str, str], ms: int
) -> None:
    assert max_age_ms(options) == ms
