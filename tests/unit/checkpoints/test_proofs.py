"""Bytes that were read once are not read again while their inode stands still; anything else is read afresh."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint, read_cache, read_fingerprint, seed
from recovery.checkpoints.storage import Store
from recovery.errors import Refused
from tests.unit.checkpoints.seeding import flow, free, prepared

__all__ = ["flow"]

LOG = "sources/0/1"


@pytest.fixture(autouse=True)
def at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file had been left alone for long: the files of a test are younger than any clock is coarse."""
    read_cache.forget_digests()
    monkeypatch.setattr(read_cache, "UNSURE_NS", -(10**18))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose bytes are asked for from now on."""
    seen: list[str] = []
    real = Store.reading

    def reading(self: Store, name: str) -> Any:
        seen.append(name)
        return real(self, name)

    monkeypatch.setattr(Store, "reading", reading)
    return seen


def in_place(file: Path) -> None:
    """Other bytes, as many, and the mtime put back."""
    told = file.stat()
    data = file.read_bytes()
    file.write_bytes(data[:-3] + b"9" + data[-2:])
    os.utime(file, ns=(told.st_atime_ns, told.st_mtime_ns))


def replaced(file: Path) -> None:
    """Another file of the same size and mtime under that name, as a backup tool puts it."""
    told = file.stat()
    other = file.with_name("other")
    other.write_bytes(file.read_bytes().replace(b"part", b"trap"))
    os.utime(other, ns=(told.st_atime_ns, told.st_mtime_ns))
    other.replace(file)


def test_a_second_fingerprint_reads_nothing(flow: Path, reads: list[str]) -> None:
    first = read_fingerprint(str(flow))
    assert LOG in reads
    reads.clear()
    assert read_fingerprint(str(flow)) == first
    assert reads == []


@pytest.mark.parametrize("change", [in_place, replaced])
def test_other_bytes_of_the_same_size_and_time_are_seen(flow: Path, change: Callable[[Path], None]) -> None:
    first = read_fingerprint(str(flow))
    change(flow / "0" / LOG)
    assert read_fingerprint(str(flow)) != first


def test_a_file_that_has_just_moved_proves_nothing(
    flow: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_cache, "UNSURE_NS", 3600 * 10**9)
    read_fingerprint(str(flow))
    reads.clear()
    read_fingerprint(str(flow))
    assert LOG in reads


def test_a_seed_reads_only_what_it_has_written_anew(flow: Path, reads: list[str]) -> None:
    plan = seed.plan_seed(inspect_checkpoint(str(flow)))
    reads.clear()
    ready = seed.prepare_seed(str(flow), plan, recovery="R-1", fence=1, guard=free)
    seed.publish_checkpoint(str(flow), ready, guard=free)
    small = {n for n in reads if not n.startswith(("metadata", "offsets/", "commits/"))}
    assert small == set(), "log files are linked: the same inodes as when the plan was made"
    assert {"metadata", "offsets/1", "offsets/2", "commits/2"} <= set(reads)
    assert inspect_checkpoint(str(flow)).version == 1
    assert len(inspect_checkpoint(str(flow)).sources[0].committed) == len(
        inspect_checkpoint(str(flow / "0")).sources[0].committed
    )


def test_a_link_made_by_somebody_else_is_no_proof(flow: Path, reads: list[str]) -> None:
    read_fingerprint(str(flow))
    reads.clear()
    os.link(flow / "0" / LOG, flow / "elsewhere")
    read_fingerprint(str(flow))
    assert reads == [LOG]


@pytest.mark.parametrize("change", [in_place, replaced])
def test_a_prepared_log_that_was_changed_is_not_published(flow: Path, change: Callable[[Path], None]) -> None:
    ready = prepared(flow)
    change(flow / ".reprise-R-1" / LOG)
    with pytest.raises(Refused, match=r"nothing was (changed|published)"):
        seed.publish_checkpoint(str(flow), ready, guard=free)


def test_an_unreadable_log_is_found_however_well_it_is_known(flow: Path) -> None:
    first = inspect_checkpoint(str(flow))
    (flow / "0" / LOG).unlink()
    assert inspect_checkpoint(str(flow)).fingerprint != first.fingerprint
    assert {f.code for f in inspect_checkpoint(str(flow)).blockers}


def test_what_is_held_is_bounded() -> None:
    recent: read_cache.Recent[int, int] = read_cache.Recent(3)
    for n in range(5):
        recent.put(n, n)
        recent.get(2)
    assert [recent.get(n) for n in range(5)] == [None, None, 2, 3, 4]
