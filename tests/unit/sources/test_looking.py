"""One look at a source: what waits, what a wished start costs; a system that does not answer is said, not guessed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.checkpoints.report import Entries, SourceEntry, SourceProgress
from recovery.contracts.amounts import Amount
from recovery.contracts.readers import NO_READER, SourceReader
from recovery.sources.base import StartChoice
from recovery.sources.delta_facts import DeltaOffset
from recovery.sources.live import probe
from tests.delta_tables import TABLE, add, table

SECRET = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five files, a second apart."""
    for n in range(1, 6):
        file = tmp_path / "in" / f"{n}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text('{"id": 1}\n')
        os.utime(file, (1000 + n, 1000 + n))
    return tmp_path / "in"


def uri(folder: Path, *numbers: int) -> tuple[str, ...]:
    return tuple(f"file://{folder}/{n}.json" for n in numbers)


def read(folder: Path, *numbers: int) -> SourceProgress:
    """A source that has read these files, a batch each."""
    entries = [
        SourceEntry(p, (1000 + n) * 1000, i)
        for i, (p, n) in enumerate(zip(uri(folder, *numbers), numbers, strict=True))
    ]
    last = len(entries) - 1
    return SourceProgress(0, "files", f'{{"logOffset":{last}}}', last, Entries.from_entries(entries))


@pytest.mark.parametrize(
    ("wanted", "waiting", "reread", "skipped"),
    [
        (None, (4, 5), (), ()),
        (StartChoice(earliest=True), (1, 2, 3, 4, 5), (1, 2, 3), ()),
        (StartChoice(latest=True), (), (), (4, 5)),
        (StartChoice(by_hand='{"logOffset":1}'), (3, 4, 5), (3,), ()),
        (StartChoice(at_ms=1_005_000), (5,), (), (4,)),
    ],
    ids=["committed", "earliest", "latest", "an entry back", "at a time"],
)
def test_a_start_of_files_says_which_are_read_again_and_which_never(
    folder: Path,
    wanted: StartChoice | None,
    waiting: tuple[int, ...],
    reread: tuple[int, ...],
    skipped: tuple[int, ...],
) -> None:
    found = probe.probe_source(read(folder, 1, 2, 3), SourceReader("json", str(folder)), wanted=wanted)
    spans = found.spans
    assert found.problem is None
    assert tuple(f.path for f in found.waiting) == uri(folder, *waiting)
    for span, wished in ((spans.waiting, waiting), (spans.reread, reread), (spans.skipped, skipped)):
        assert span is not None
        assert span.files == uri(folder, *wished)
    assert spans.everything is not None
    assert set(spans.everything.files) == set(uri(folder, 1, 2, 3, 4, 5))
    assert found.unread.files == Amount(value=len(waiting))


@pytest.mark.parametrize(
    ("wanted", "readable"),
    [(None, False), (StartChoice(earliest=True), False), (StartChoice(latest=True), True)],
    ids=["committed", "earliest", "latest"],
)
def test_the_reach_of_files_is_that_of_the_start(
    folder: Path, wanted: StartChoice | None, readable: bool
) -> None:
    """File 4 was planned and is gone: only a start behind it leaves it behind."""
    planned = Entries.from_entries([SourceEntry(uri(folder, 4)[0], 1_004_000, 3)])
    (folder / "4.json").unlink()
    found = probe.probe_source(
        replace(read(folder, 1, 2, 3), planned=planned),
        SourceReader("json", str(folder)),
        wanted=wanted,
    )
    assert found.reach is not None
    assert found.reach.readable is readable
    assert found.option is not None
    assert not found.option.supported


def delta(place: Path) -> Path:
    """Versions 1 to 3 add a file each."""
    table(place, [[], [add("f1")], [add("f2")], [add("f3")]])
    return place


@pytest.mark.parametrize(
    ("wanted", "waiting", "reread", "skipped"),
    [
        (None, {"f2", "f3"}, set(), set()),
        (StartChoice(version=1), {"f1", "f2", "f3"}, {"f1"}, set()),
        (StartChoice(latest=True), set(), set(), {"f2", "f3"}),
        (StartChoice(version=3), {"f3"}, set(), {"f2"}),
    ],
    ids=["committed", "a version back", "latest", "a version on"],
)
def test_a_start_of_delta_says_which_files_are_read_again_and_which_never(
    tmp_path: Path, wanted: StartChoice | None, waiting: set[str], reread: set[str], skipped: set[str]
) -> None:
    place = delta(tmp_path / "t")
    progress = SourceProgress(0, "delta", DeltaOffset(TABLE, 2).as_json())
    found = probe.probe_source(progress, SourceReader("delta", str(place)), wanted=wanted)
    assert found.problem is None
    for span, wished in (
        (found.spans.waiting, waiting),
        (found.spans.reread, reread),
        (found.spans.skipped, skipped),
        (found.spans.processed, {"f1"}),
        (found.spans.everything, {"f1", "f2", "f3"}),
    ):
        assert span is not None
        assert {p for _, paths in span.versions for p in paths} == wished


@pytest.mark.parametrize(
    ("kind", "line", "reader", "says"),
    [
        ("delta", DeltaOffset(TABLE, 2).as_json(), SourceReader(path="/nowhere/at/all"), "no Delta table"),
        ("delta", DeltaOffset(TABLE, 2).as_json(), NO_READER, "does not show where"),
        ("kafka", '{"t":{"0":1}}', NO_READER, "does not show where"),
        (
            "kafka",
            '{"t":{"0":1}}',
            SourceReader(
                options={
                    "kafka.bootstrap.servers": "localhost:1",
                    "subscribe": "t",
                    "kafka.security.protocol": "SASL_PLAINTEXT",
                    "kafka.sasl.mechanism": "PLAIN",
                    "kafka.sasl.jaas.config": SECRET,
                }
            ),
            "",
        ),
        (
            "kafka",
            '{"t":1}',
            SourceReader(options={"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}),
            "cannot be read",
        ),
    ],
    ids=["no table", "no place", "no options", "broker away", "no position"],
)
def test_a_system_that_cannot_be_asked_is_said_without_a_secret(
    kind: str, line: str, reader: SourceReader, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        probe.live_kafka.read_topic_facts,
        "__kwdefaults__",
        {**probe.live_kafka.read_topic_facts.__kwdefaults__, "seconds": 0.5},
    )
    found = probe.probe_source(SourceProgress(0, kind, line), reader)
    assert found.problem
    assert says in found.problem
    assert "hunter2" not in found.problem
    assert found.position.offset_json == line
    assert found.spans.waiting is None


def test_a_kind_that_cannot_be_positioned_says_so_to_a_wish() -> None:
    found = probe.probe_source(SourceProgress(0, "pubsub", "7"), NO_READER, wanted=StartChoice(earliest=True))
    assert found.start is None
    assert found.problem is not None
    assert "pubsub" in found.problem


def test_a_wish_that_cannot_be_met_is_a_sentence_and_the_committed_position_stays(tmp_path: Path) -> None:
    place = delta(tmp_path / "t")
    progress = SourceProgress(0, "delta", DeltaOffset(TABLE, 2).as_json())
    found = probe.probe_source(progress, SourceReader(path=str(place)), wanted=StartChoice(version=99))
    assert found.start is None
    assert found.problem is not None
    assert found.begins == progress.offset_json
