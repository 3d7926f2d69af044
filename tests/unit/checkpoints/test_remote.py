"""What a Store asks of a file system that is not local: in which order it moves, and that it never guesses."""

from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from recovery.checkpoints import remote
from recovery.checkpoints.remote import Remote
from recovery.checkpoints.storage import Store

FILES = {"metadata": b"{}", "offsets/1": b"v1", "offsets/2": b"v1!", "sources/0/1": b""}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A memory store with one prepared directory; one act at a time, so that their order can be told."""
    monkeypatch.setattr(remote, "AT_ONCE", 1)
    store = Store.open("memory://flow")
    for name, data in FILES.items():
        store.write(f".new/{name}", data)
    yield store
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def acts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(operation, path) of every copy and removal."""
    seen: list[tuple[str, str]] = []
    for name in ("cp_file", "rm_file", "rm"):
        real: Callable[..., Any] = getattr(Remote, name)

        def wrapped(
            self: Remote, path: str, *rest: Any, _name: str = name, _real: Any = real, **words: Any
        ) -> Any:
            seen.append((_name, path))
            return _real(self, path, *rest, **words)

        monkeypatch.setattr(Remote, name, wrapped)
    return seen


def test_a_directory_is_copied_with_its_metadata_last_and_removed_with_it_first(
    store: Store, acts: list[tuple[str, str]]
) -> None:
    store.rename(".new", "1")
    assert {n: store.read(f"1/{n}", 100) for n in FILES} == FILES
    assert not store.exists(".new")
    assert sorted(path for act, path in acts[:3] if act == "cp_file") == sorted(
        f"/flow/.new/{n}" for n in FILES if n != "metadata"
    )
    assert acts[3:] == [
        ("cp_file", "/flow/.new/metadata"),
        ("rm_file", "/flow/.new/metadata"),
        ("rm", "/flow/.new"),
    ]


@pytest.mark.parametrize("lost", ["offsets/2", "metadata"])
def test_what_did_not_arrive_whole_is_not_removed_at_the_old_place(
    store: Store, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    real = MemoryFileSystem.cp_file

    def losing(self: MemoryFileSystem, old: str, new: str, **words: Any) -> None:
        real(self, old, new, **words)
        if old.endswith(lost):
            self.pipe_file(new, b"x" * 50)

    monkeypatch.setattr(MemoryFileSystem, "cp_file", losing)
    with pytest.raises(OSError, match=rf"{lost} did not arrive"):
        store.rename(".new", "1")
    assert {n: store.read(f".new/{n}", 100) for n in FILES} == FILES


@pytest.mark.parametrize("ask", [Store.exists, Store.is_dir])
@pytest.mark.parametrize(
    "error", [TimeoutError("no answer"), RuntimeError("a client's own"), PermissionError()]
)
def test_a_store_that_does_not_answer_is_never_taken_for_an_empty_one(
    store: Store, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Store, str], bool], error: Exception
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise error

    assert ask(store, "nothing") is False
    monkeypatch.setattr(MemoryFileSystem, "info", failing)
    with pytest.raises(OSError, match=r"no answer|a client's own|refuses access"):
        ask(store, ".new")


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 25])
@pytest.mark.parametrize("piece", [3, 10, 100])
def test_a_file_is_read_by_ranges_to_its_end(
    store: Store, monkeypatch: pytest.MonkeyPatch, size: int, piece: int
) -> None:
    monkeypatch.setattr(remote, "BLOCK", 10)
    data = bytes(range(size))
    store.write("file", data)
    assert b"".join(store.chunks("file", piece)) == data
    assert store.prefetch_files({"file": size}).read("file", 100) == data


def test_a_signed_address_is_in_no_sentence() -> None:
    error = remote._first_line_of(
        RuntimeError('cannot reach "https://s.example/b?X-Amz-Signature=abc"\nmore')
    )
    assert error == 'cannot reach "https://s.example/b"'
