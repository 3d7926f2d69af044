"""Whatever lies there or answers: bounded time and memory, and a finding or one clear sentence."""

import contextlib
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from recovery.checkpoints import formats, inspect_checkpoint, storage
from recovery.checkpoints.filelog import derive_interval
from recovery.checkpoints.headers import stray_offsets
from recovery.errors import RepriseError, Unreachable
from tests.checkpoint_builder import CONF, Built, dumps
from tests.odd_store import OddStore, slow

ROOT = Path(__file__).resolve().parents[3]
GIGABYTE = 1 << 30


def codes(where: Path | str) -> set[str]:
    return {f.code for f in inspect_checkpoint(str(where)).findings}


def sparse(file: Path, size: int) -> None:
    """A file that says it has so many bytes and holds none."""
    with file.open("wb") as stream:
        stream.truncate(size)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("metadata", "METADATA_UNREADABLE"),
        ("offsets/2", "OFFSET_UNREADABLE"),
        ("commits/2", "COMMIT_UNREADABLE"),
        ("sources/0/2", "SOURCE_LOG_UNREADABLE"),
    ],
)
def test_a_log_of_ten_gigabytes_is_a_finding_at_once(tmp_path: Path, name: str, code: str) -> None:
    Built(tmp_path / "ck", operators=(), sidecars=False).write()
    sparse(tmp_path / "ck" / name, 10 * GIGABYTE)
    start = time.process_time()
    tracemalloc.start()
    try:
        assert code in codes(tmp_path / "ck")
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < 5


def offsets_with(line: str = '{"logOffset":2}', **changes: Any) -> str:
    body = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": CONF, **changes}
    return f"v1\n{dumps(body)}\n{line}"


DEEP = "[" * 200_000 + "]" * 200_000
TWICE = 'v1\n{"batchWatermarkMs":0,"batchWatermarkMs":9,"batchTimestampMs":1,"conf":{}}\n{"logOffset":2}'


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("offsets/2", f"v1\n{DEEP}\n-".encode(), "OFFSET_UNREADABLE"),
        ("offsets/2", TWICE.encode(), "OFFSET_UNREADABLE"),
        ("offsets/2", offsets_with().encode("utf-16"), "OFFSET_UNREADABLE"),
        ("offsets/2", b"\xef\xbb\xbf" + offsets_with().encode(), "OFFSET_UNREADABLE"),
        ("offsets/2", offsets_with("\n".join("-" * 500_000)).encode(), "OFFSET_UNREADABLE"),
        ("offsets/2", offsets_with('{"logOffset":' + "9" * 4000 + "}").encode(), "SOURCE_LOG_MISSING"),
        ("offsets/2", offsets_with(DEEP).encode(), "SOURCE_UNKNOWN"),
        ("commits/2", f'v1\n{{"nextBatchWatermarkMs":{"9" * 5000}}}'.encode(), "COMMIT_UNREADABLE"),
        ("commits/2", 'v1\n{"nextBatchWatermarkMs":0}'.encode("utf-16"), "COMMIT_UNREADABLE"),
        ("metadata", b'{"id":"a","id":"b"}', "METADATA_UNREADABLE"),
        ("metadata", b'{"id":"\\ud800"}', "METADATA_UNREADABLE"),
        ("metadata", b"\xff\xfe", "METADATA_UNREADABLE"),
        ("sources/0/2", b"v1\n" + DEEP.encode(), "SOURCE_LOG_UNREADABLE"),
        ("sources/0/2", b"v1\n" + b"x" * (5 << 20), "SOURCE_LOG_UNREADABLE"),
        ("sources/0/2", "v1\n{}".encode("utf-16"), "SOURCE_LOG_UNREADABLE"),
    ],
)
def test_content_that_nobody_meant_is_a_finding(tmp_path: Path, name: str, content: bytes, code: str) -> None:
    Built(tmp_path / "ck", operators=(), sidecars=False).write()
    (tmp_path / "ck" / name).write_bytes(content)
    assert code in codes(tmp_path / "ck")


def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    where = tmp_path / "ck"
    Built(where, operators=()).write()
    for number in range(8):
        (where / f"again{number}").symlink_to(where, target_is_directory=True)
    (where / "offsets" / "up").symlink_to(where, target_is_directory=True)
    (where / "commits" / "self").symlink_to("self")
    start = time.process_time()
    report = inspect_checkpoint(str(where))
    assert report.last_committed == 2
    assert not report.blockers
    assert time.process_time() - start < 2


def test_a_directory_of_too_many_files_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "ck"
    Built(where, operators=()).write()
    for number in range(300):
        (where / f"junk{number}").write_bytes(b"")
    monkeypatch.setattr(storage, "MAX_FILES", 200)
    files, _, whole = storage.Store.open(str(where)).walk(200)
    assert not whole
    assert len(files) <= 201


def test_numbers_that_follow_on_nothing_are_sorted_out_in_one_pass() -> None:
    start = time.process_time()
    assert len(stray_offsets(set(range(0, 400_000, 2)), set())) == 199_999
    assert time.process_time() - start < 2


def test_a_compacted_entry_with_eighteen_digits_has_an_interval_soon() -> None:
    prime = 999_999_999_999_999_989
    start = time.process_time()
    assert derive_interval(10, prime - 1) == prime
    assert time.process_time() - start < 2


def test_a_log_whose_names_climb_out_is_not_followed(tmp_path: Path) -> None:
    where = tmp_path / "deep" / "ck"
    Built(where, version=2, operators=(), sidecars=False).write()
    secret = tmp_path / "deep" / "0"
    secret.write_text("v1\nsecret")
    (where / "offsets/2").write_text(
        (where / "offsets/2").read_text().replace('0:{"logOffset"', '../..:{"logOffset"')
    )
    assert "OFFSET_UNREADABLE" in codes(where)


# ---- stores that answer oddly


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[str]:
    """A checkpoint of 30 batches on a store that does as it is told."""
    fsspec.register_implementation("odd", OddStore, clobber=True)
    OddStore.reset()
    Built(tmp_path / "ck", batches=30, planned=1, sidecars=False).write()
    fs = OddStore()
    for file in (p for p in (tmp_path / "ck").rglob("*") if p.is_file()):
        fs.pipe_file(f"/ck/{file.relative_to(tmp_path / 'ck')}", file.read_bytes())
    OddStore.calls = []
    yield "odd:///ck"
    OddStore.reset()


def test_an_odd_store_that_behaves_is_read_like_any_other(odd: str, tmp_path: Path) -> None:
    far, near = inspect_checkpoint(odd), inspect_checkpoint(str(tmp_path / "ck"))
    assert (far.last_committed, far.findings) == (near.last_committed, near.findings)
    assert far.sources[0].committed == near.sources[0].committed
    assert far.fingerprint == near.fingerprint


def test_a_slow_store_is_asked_several_things_at_a_time(odd: str) -> None:
    OddStore.before = slow(0.01)
    start = time.perf_counter()
    inspect_checkpoint(odd)
    reads = sum(operation == "open" for operation, _ in OddStore.calls)
    assert reads > 60
    assert time.perf_counter() - start < 0.01 * len(OddStore.calls)


def test_no_log_is_read_twice(odd: str) -> None:
    inspect_checkpoint(odd)
    opened = [path for operation, path in OddStore.calls if operation == "open"]
    assert sorted(opened) == sorted(set(opened))


def failing(nth: int, error: Exception) -> Callable[[str, str], None]:
    left = [nth]

    def before(_operation: str, _path: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise error

    return staticmethod(before)  # type: ignore[return-value]


@pytest.mark.parametrize(
    "error", [TimeoutError("no answer"), PermissionError(13, "denied"), ConnectionError("reset")]
)
def test_a_store_that_fails_at_any_call_is_one_sentence_or_still_an_answer(
    odd: str, error: Exception
) -> None:
    inspect_checkpoint(odd)
    total = len(OddStore.calls)
    for nth in range(1, total + 1, 3):
        OddStore.before = failing(nth, error)
        with pytest.raises(Unreachable, match="cannot be read"):
            inspect_checkpoint(odd)


def test_a_file_that_is_listed_and_gone_is_a_finding_or_nothing(odd: str) -> None:
    inspect_checkpoint(odd)
    for path in sorted({path for operation, path in OddStore.calls if operation == "open"}):

        def before(operation: str, asked: str, _gone: str = path) -> None:
            if operation == "open" and asked == _gone:
                raise FileNotFoundError(asked)

        OddStore.before = staticmethod(before)
        assert inspect_checkpoint(odd).fingerprint


LIES: list[tuple[str, Callable[[str, list[Any]], list[Any]]]] = [
    ("nothing", lambda _path, _infos: []),
    ("each name twice", lambda _path, infos: [*infos, *infos]),
    ("no sizes", lambda _path, infos: [{**i, "size": None} for i in infos]),
    ("huge sizes", lambda _path, infos: [{**i, "size": 1 << 50} for i in infos]),
    ("files as directories", lambda _path, infos: [{**i, "type": "directory"} for i in infos]),
    ("directories as files", lambda _path, infos: [{**i, "type": "file"} for i in infos]),
    ("the parent", lambda path, infos: [*infos, {"name": f"{path}/..", "size": 0, "type": "directory"}]),
    ("itself", lambda path, infos: [*infos, {"name": path, "size": 0, "type": "directory"}]),
    ("half", lambda _path, infos: infos[::2]),
    (
        "odd names",
        lambda path, infos: [*infos, {"name": f"{path}/\udce9\n\x1b[2J", "size": 1, "type": "file"}],
    ),
]


@pytest.mark.parametrize("lie", [lie for _, lie in LIES], ids=[name for name, _ in LIES])
def test_a_listing_that_lies_is_answered(odd: str, lie: Callable[[str, list[Any]], list[Any]]) -> None:
    OddStore.listing = staticmethod(lie)  # type: ignore[assignment]
    with contextlib.suppress(RepriseError):
        assert inspect_checkpoint(odd).as_dict()
    assert not [path for operation, path in OddStore.calls if ".." in path.split("/")]


MEASURE = """
import sys
from recovery.checkpoints import inspect_checkpoint
source = inspect_checkpoint(sys.argv[1]).sources[0]
held = list(source.committed) if sys.argv[2] == "all" else None
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(len(source.committed), peak)
"""


def peak_of(where: Path, asked: str) -> tuple[int, int]:
    """(entries, peak memory in kB) of a fresh process that asks for "totals" or for "all" entries."""
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE, str(where), asked],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    count, peak = map(int, ran.stdout.split())
    return count, peak


LONG = 2500  # files a batch: held, they need more than twice the memory of a process that holds none


def test_totals_of_a_long_log_need_no_more_memory_than_those_of_a_short_one(tmp_path: Path) -> None:
    for files in (10, LONG):
        where = tmp_path / str(files)
        Built(where, batches=100, files_per_batch=files, operators=(), sidecars=False, interval=100).write()
    few, short = peak_of(tmp_path / "10", "totals")
    many, long = peak_of(tmp_path / str(LONG), "totals")
    assert (few, many) == (1000, 100 * LONG)
    assert long < 2 * short
    assert peak_of(tmp_path / str(LONG), "all")[1] > 2 * short, "held entries show in what is measured here"


def test_more_source_lines_than_any_query_has_are_malformed() -> None:
    with pytest.raises(formats.Malformed, match="more than the 1000"):
        formats.parse_offsets(offsets_with("\n".join("-" * 1001)).encode())


CODES = """
import sys
from recovery.checkpoints import inspect_checkpoint
print([f.code for f in inspect_checkpoint(sys.argv[1]).findings])
"""


def test_a_named_pipe_in_the_place_of_a_log_does_not_wait_for_ever(tmp_path: Path) -> None:
    Built(tmp_path / "ck", operators=(), sidecars=False).write()
    (tmp_path / "ck/offsets/2").unlink()
    os.mkfifo(tmp_path / "ck/offsets/2")
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            CODES,
            str(tmp_path / "ck"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert "OFFSET_UNREADABLE" in ran.stdout
