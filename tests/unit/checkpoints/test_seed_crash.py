"""A seed whose disk is full or whose fence is lost, at every write; deaths are in test_placing_crash."""

import contextlib
import errno
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import list_versions, seed
from recovery.checkpoints.seed import SeedState
from recovery.checkpoints.storage import Store
from recovery.errors import RepriseError
from tests.checkpoint_builder import Built
from tests.refusals import refused
from tests.unit.checkpoints.seeding import flow, prepared, seeded, tree

__all__ = ["flow"]

WRITES = ("make_dirs", "write", "link", "settle", "sync", "rename", "replace")


class Stop(Exception):
    """The worker ends here."""


@pytest.fixture
def at_write(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, Exception], list[str]]]:
    """Make the nth write of any kind raise instead of happening; gives the list of writes so far."""

    def arrange(nth: int, error: Exception) -> list[str]:
        seen: list[str] = []
        for name in WRITES:
            real = getattr(Store, name)

            def wrapped(self: Store, *args: Any, _name: str = name, _real: Any = real, **words: Any) -> Any:
                seen.append(_name)
                if len(seen) == nth:
                    raise error
                return _real(self, *args, **words)

            monkeypatch.setattr(Store, name, wrapped)
        return seen

    return arrange


def count_writes(flow: Path, at_write: Callable[[int, Exception], list[str]]) -> int:
    seen = at_write(10**9, Stop())
    seeded(flow)
    return len(seen)


TOTAL_WRITES = 19  # of a seed with one source and three batches; the test below keeps it true


def test_the_number_of_writes_is_known(flow: Path, at_write: Callable[[int, Exception], list[str]]) -> None:
    assert count_writes(flow, at_write) == TOTAL_WRITES


@pytest.mark.parametrize("nth", range(1, TOTAL_WRITES + 1))
def test_a_full_disk_at_any_write_leaves_everything_as_it_was(
    flow: Path, at_write: Callable[[int, Exception], list[str]], nth: int
) -> None:
    before = tree(flow)
    at_write(nth, OSError(28, "No space left on device"))
    if nth <= TOTAL_WRITES - 2:  # the rest is the rename itself and what follows it
        with refused("storage_failed", RepriseError, names=("No space left",)):
            prepared(flow)
        assert tree(flow) == before
    else:
        with pytest.raises(RepriseError):
            seeded(flow)
    assert {k: v for k, v in tree(flow).items() if k.startswith("0/")} == before


@pytest.mark.parametrize("nth", range(1, 12))
def test_a_worker_that_lost_its_fence_stops_and_removes_nothing(flow: Path, nth: int) -> None:
    calls: list[int] = []

    def guard() -> None:
        calls.append(1)
        if len(calls) == nth:
            raise Stop

    with pytest.raises(Stop):
        seeded(flow, guard=guard)
    assert list_versions(str(flow)) == [0]
    assert seed.probe_outcome(str(flow), recovery="R-1").state in (SeedState.NOTHING, SeedState.PREPARED)
    seed.clean_leftovers(str(flow), recovery="R-1")
    assert seeded(flow, fence=2) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB where we may mount one; elsewhere files may not grow beyond 100 bytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode == 0:
        yield disk
        subprocess.run(["umount", str(disk)], check=True)
        return
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield disk
    resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_a_really_full_disk_is_one_sentence_and_leaves_nothing(small_disk: Path) -> None:
    flow = small_disk / "flow"
    Built(flow / "0", batches=3, files_per_batch=4000, sidecars=False, operators=()).write()
    before = tree(flow)
    if small_disk.is_mount():
        filler = small_disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
            while stream.write(b"x" * 4096):
                pass
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    with refused("storage_failed", RepriseError) as full:
        prepared(flow)
    assert any(os.strerror(number) in full.value.sentence for number in (errno.ENOSPC, errno.EFBIG))
    assert tree(flow) == before
    assert [p.name for p in flow.iterdir()] == ["0"]
