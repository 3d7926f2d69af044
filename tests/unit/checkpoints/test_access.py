"""Which places may be opened, whoever names them: roots, hidden folders, links, hosts; and stores that are silent."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from recovery.checkpoints import access, local
from recovery.checkpoints.access import Access, Rules
from recovery.checkpoints.storage import Store
from recovery.errors import Refused, Unreachable
from tests.odd_store import OddStore

FAST = 0.4


def code_of(act: Callable[[], object]) -> str:
    """The code of the refusal; "" where there is none."""
    try:
        act()
    except (Refused, Unreachable) as refusal:
        return refusal.code
    return ""


def opened_under(rules: Rules, location: str) -> str:
    with access.using_access(Access(rules)):
        return code_of(lambda: Store.open(location))


@pytest.mark.parametrize(
    ("location", "roots", "code"),
    [
        ("{tmp}/data/x", (), ""),
        ("{tmp}/data/x", ("{tmp}/data",), ""),
        ("{tmp}/data", ("{tmp}/data",), ""),
        ("file:{tmp}/data/x", ("{tmp}/data",), ""),
        ("file://{tmp}/data/x", ("file:{tmp}/data",), ""),
        ("{tmp}/data2/x", ("{tmp}/data",), "storage_root"),
        ("{tmp}/data/../data2", ("{tmp}/data",), "storage_root"),
        ("{tmp}/linked", ("{tmp}/data",), "storage_hidden"),
        ("{tmp}/linked", (), "storage_hidden"),
        ("{tmp}/console/key", (), "storage_hidden"),
        ("{tmp}/console/storage/x", (), ""),
        ("{tmp}/console/storage/../key", (), "storage_hidden"),
        ("{tmp}/console/storage/x", ("{tmp}/console/storage/x",), ""),
        ("{tmp}/console/storage/x", ("{tmp}/data",), "storage_root"),
        ("{tmp}/data/x", ("s3://bucket",), "storage_root"),
        ("/etc", (), "storage_hidden"),
        ("/proc/self/environ", (), "storage_hidden"),
        ("{tmp}/person/.ssh", (), "storage_hidden"),
        ("{tmp}/person/data", (), ""),
        ("s3://bucket/x", ("s3://bucket",), ""),
        ("s3a://bucket/x", ("s3://bucket/x",), ""),
        ("s3a://bucket/xy", ("s3://bucket/x",), "storage_root"),
        ("s3://bucket2/x", ("s3://bucket",), "storage_root"),
        ("s3://bucket/x/../y", ("s3://bucket/x",), "storage_address"),
        ("s3://bucket/x", ("{tmp}/data",), "storage_root"),
    ],
)
def test_a_place_is_opened_below_the_roots_and_never_in_a_hidden_folder(
    location: str, roots: tuple[str, ...], code: str, tmp_path: Path
) -> None:
    for name in ("data/x", "data2", "console/storage/x", "console/key"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "console/key")
    hidden = (str(tmp_path / "console"), *access.SYSTEM)
    rules = Rules(
        tuple(root.format(tmp=tmp_path) for root in roots),
        hidden=hidden,
        shown=(str(tmp_path / "console/storage"),),
        homes=(str(tmp_path / "person"),),
    )
    assert opened_under(rules, location.format(tmp=tmp_path)) == code


def test_the_operators_folders_hold_beside_a_workspaces_roots(tmp_path: Path) -> None:
    rules = Rules(roots=("/", str(tmp_path)), local_roots=(str(tmp_path / "data"),))
    assert opened_under(rules, str(tmp_path / "data/x")) == ""
    assert opened_under(rules, str(tmp_path / "other")) == "storage_root"


def test_a_root_is_where_it_was_when_it_was_named_whatever_lies_there_now(tmp_path: Path) -> None:
    root, other, link = tmp_path / "data", tmp_path / "other", tmp_path / "link"
    for folder in (root, other):
        (folder / "x").mkdir(parents=True)
    link.symlink_to(root)
    rules = Rules(roots=(str(root), str(link)), real_roots=((str(root), str(root)), (str(link), str(root))))
    assert [opened_under(rules, f"{at}/x") for at in (root, link, other)] == ["", "", "storage_root"]
    link.unlink()
    link.symlink_to(other)
    assert opened_under(rules, f"{link}/x") == "storage_root_moved"
    (root / "x").rmdir()
    root.rmdir()
    root.symlink_to(other)
    assert opened_under(rules, f"{root}/x") == "storage_root_moved"


def test_a_root_of_which_nobody_kept_where_it_leads_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "data/x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert opened_under(Rules(roots=(str(tmp_path / "data"),)), str(tmp_path / "data/x")) == ""
    assert (
        opened_under(Rules(roots=(str(tmp_path / "link"),)), str(tmp_path / "link/x")) == "storage_root_moved"
    )


@pytest.mark.parametrize("read", [lambda s: s.read("0", 99), lambda s: s.entries("d"), lambda s: s.walk()])
def test_a_link_inside_a_checkpoint_leads_nowhere_hidden(
    read: Callable[[Store], object], tmp_path: Path
) -> None:
    secret = tmp_path / "console/secret"
    secret.parent.mkdir()
    secret.write_text("key")
    place = tmp_path / "flow"
    place.mkdir()
    (place / "0").symlink_to(secret)
    (place / "d").symlink_to(secret.parent)
    with access.using_access(Access(Rules(hidden=(str(secret.parent),)))):
        assert code_of(lambda: read(Store.open(str(place)))) == "storage_hidden"


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Store]:
    """A flow whose folder `way` leads to one of the console's, and whose file `0` to the key in there."""
    for name in ("console/deep", "flow/real"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("console/key", "console/deep/file", "flow/file"):
        (tmp_path / name).write_text(name)
    (tmp_path / "flow/way").symlink_to(tmp_path / "console")
    (tmp_path / "flow/0").symlink_to(tmp_path / "console/key")
    with access.using_access(Access(Rules(hidden=(str(tmp_path / "console"),)))):
        yield Store.open(str(tmp_path / "flow"))


def held_in(folder: Path) -> dict[str, str]:
    """Files and their texts."""
    return {str(f.relative_to(folder)): f.read_text() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize(
    "write",
    [
        lambda s: s.write("way/new", b"x"),
        lambda s: s.make_dirs("way/new/deep"),
        lambda s: s.remove("way/key"),
        lambda s: s.remove("way/deep"),
        lambda s: s.rename("way/key", "mine"),
        lambda s: s.rename("file", "way/new"),
        lambda s: s.replace("way/key", "mine"),
        lambda s: s.replace("file", "way/key"),
        lambda s: s.copy(s, "way/key", "mine"),
        lambda s: s.copy(s, "0", "mine"),
        lambda s: s.copy(s, "file", "way/new"),
        lambda s: s.copy(Store(MemoryFileSystem(), "/m", "memory://m"), "a", "way/key"),
        lambda s: s.link(s, "way/key", "mine"),
        lambda s: s.link(s, "0", "mine"),
        lambda s: s.link(s, "file", "way/new"),
    ],
)
def test_nothing_is_written_moved_or_removed_through_a_link_to_a_hidden_place(
    write: Callable[[Store], object], planted: Store, tmp_path: Path
) -> None:
    MemoryFileSystem().pipe_file("/m/a", b"x")
    before = held_in(tmp_path / "console")

    assert code_of(lambda: write(planted)) == "storage_hidden"

    assert held_in(tmp_path / "console") == before
    assert not (tmp_path / "flow/mine").exists()
    assert (tmp_path / "flow/file").read_text() == "flow/file"


@pytest.mark.parametrize(
    "write",
    [
        lambda s: s.write("0", b"x"),
        lambda s: s.copy(s, "file", "0"),
        lambda s: s.copy(Store(MemoryFileSystem(), "/m", "memory://m"), "a", "0"),
        lambda s: s.rename("file", "0"),
        lambda s: s.link(s, "file", "0"),
        lambda s: s.replace("file", "0"),
        lambda s: s.remove("0"),
        lambda s: s.remove("way"),
    ],
)
def test_a_link_in_the_place_of_a_file_is_itself_replaced_or_removed_or_in_the_way(
    write: Callable[[Store], object], planted: Store, tmp_path: Path
) -> None:
    MemoryFileSystem().pipe_file("/m/a", b"x")
    before = held_in(tmp_path / "console")

    with contextlib.suppress(OSError):
        write(planted)

    assert held_in(tmp_path / "console") == before


def test_a_link_that_leads_to_no_hidden_place_is_followed(planted: Store, tmp_path: Path) -> None:
    (tmp_path / "flow/other").symlink_to(tmp_path / "flow/real")

    planted.make_dirs("other/a/b")
    planted.write("other/a/b/c", b"x")
    planted.rename("other/a", "other/d")

    assert held_in(tmp_path / "flow/real") == {"d/b/c": "x"}


def test_what_is_put_on_disk_keeps_nobody_waiting(planted: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "flow/real/pipe")
    (tmp_path / "flow/real/gone").symlink_to("nowhere")

    planted.settle("real")
    planted.sync("real")


@pytest.mark.parametrize(
    ("location", "store", "service", "host"),
    [
        ("/a/b", "", "", ""),
        ("file:///a/b", "", "", ""),
        ("s3n://b/x", "s3://b", "s3", ""),
        ("gcs://b/x", "gs://b", "gs", ""),
        ("hdfs:///x", "hdfs://", "hdfs://", ""),
        ("hdfs://NameNode:9000/x", "hdfs://namenode:9000", "hdfs://namenode:9000", "namenode"),
        ("hdfs://127.0.0.1:80/x", "hdfs://127.0.0.1:80", "hdfs://127.0.0.1:80", "127.0.0.1"),
        (
            "abfss://c@me.dfs.core.windows.net/x", "abfs://c@me.dfs.core.windows.net",
            "abfs://me.dfs.core.windows.net", "",
        ),
        ("abfss://c@evil.example/x", "abfs://c@evil.example", "abfs://evil.example", "evil.example"),
        ("abfss://c@core.windows.net.evil.example/x", "abfs://c@core.windows.net.evil.example",
         "abfs://core.windows.net.evil.example", "core.windows.net.evil.example"),
    ],
)  # fmt: skip
def test_an_address_is_read_by_what_it_leads_to(location: str, store: str, service: str, host: str) -> None:
    place = access.read_place(location)
    assert (place.store, place.service, place.host) == (store, service, host)


@pytest.mark.parametrize(
    "location",
    ["hdfs://a@b/x", "hdfs://h/x?user=y", "hdfs://h:99999/x", "hdfs://h/%2e%2e", "s3://b/../x", "abfs://c@/x#",
     "s3://b/\n", "s3:///b/x", "gs:///b", "abfss:///c/x"],
)  # fmt: skip
def test_an_address_that_parsers_read_differently_is_refused(location: str) -> None:
    assert code_of(lambda: access.read_place(location)) == "storage_address"


@pytest.mark.parametrize(
    ("root", "kept"),
    [
        ("/data/", "/data"),
        ("file:/data", "/data"),
        ("/data/../etc", "storage_hidden"),
        ("/etc/x", "storage_hidden"),
        ("/", "storage_address"),
        ("data", "storage_address"),
        ("s3://bucket/x/", "s3://bucket/x"),
        ("s3://", "storage_address"),
        ("http://x/y", "storage_scheme"),
        ("hdfs://named:1/x", "hdfs://named:1/x"),
        ("hdfs://inner:1/x", "outbound"),
    ],
)
def test_a_root_is_kept_in_one_form_or_refused(root: str, kept: str) -> None:
    def may_call(host: str, port: int, named: bool) -> None:
        assert named, "a root names its host"
        if host == "inner":
            raise Refused("no", code="outbound")

    rules = Rules(hidden=access.SYSTEM, may_call=may_call)
    try:
        found = access.check_root(root, rules)
    except Refused as refusal:
        found = refusal.code
    assert found == kept


@dataclass
class Noted:
    """A breaker that lets everybody pass and notes what it hears."""

    heard: list[str] = field(default_factory=list)
    trial: bool = False

    def admit_request(self, store: str) -> bool:
        return self.trial

    def note_silence(self, store: str) -> None:
        self.heard.append("silent")

    def note_answer(self, store: str) -> None:
        self.heard.append("answered")


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A store whose answer comes when this is set; patience is short."""
    monkeypatch.setattr(access, "PATIENCE", FAST)
    monkeypatch.setattr(access, "SUSPECT_SECONDS", FAST / 4)
    event = threading.Event()
    yield event
    event.set()


def until(seconds: float) -> float:
    return time.monotonic() + seconds


def test_a_silent_store_is_given_up_and_noted(release: threading.Event) -> None:
    noted = Noted()
    with access.using_access(Access(until=until(60), breaker=noted)):
        assert code_of(lambda: access.ask_store("dead", release.wait)) == "store_silent"
    assert noted.heard == ["silent"]


def test_a_deadline_that_is_near_is_not_the_stores_silence(release: threading.Event) -> None:
    noted = Noted()
    with access.using_access(Access(until=until(0.0), breaker=noted)):
        assert code_of(lambda: access.ask_store("slow", release.wait)) == "store_slow"
    assert noted.heard == []


def test_without_a_deadline_whoever_asks_waits_for_the_answer() -> None:
    with access.using_access(Access(breaker=Noted())):
        assert access.ask_store("slow", threading.current_thread) is threading.current_thread()


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (TimeoutError(), ["silent"]),
        (ConnectionRefusedError(), ["silent"]),
        (FileNotFoundError(), []),
        (ValueError(), []),
    ],
)
def test_only_silence_is_noted_and_every_error_reaches_who_asked(error: Exception, heard: list[str]) -> None:
    def fails() -> None:
        raise error

    noted = Noted()
    with access.using_access(Access(until=until(60), breaker=noted)), pytest.raises(type(error)):
        access.ask_store("store", fails)
    assert noted.heard == heard


def test_the_answer_to_a_trial_is_noted() -> None:
    noted = Noted(trial=True)
    with access.using_access(Access(until=until(60), breaker=noted)):
        assert access.ask_store("store", lambda: 7) == 7
    assert noted.heard == ["answered"]


def test_no_more_than_two_wait_while_a_store_hangs(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "PATIENCE", 30.0)
    told: list[str] = []

    def reader() -> None:
        with access.using_access(Access(until=until(60))):
            told.append(code_of(lambda: access.ask_store("dead", release.wait)))

    readers = [threading.Thread(target=reader) for _ in range(10)]
    for one in readers:
        one.start()
    end = until(20)
    while len(told) < 8 and time.monotonic() < end:
        release.wait(0.01)
    assert told == ["store_silent"] * 8, "two of ten still wait"
    release.set()
    for one in readers:
        one.join()
    assert sorted(told) == [""] * 2 + ["store_silent"] * 8


def test_a_thread_of_a_pool_has_the_same_deadline(release: threading.Event) -> None:
    with access.using_access(Access(until=until(0.0))):
        act = access.carry_access(lambda: code_of(lambda: access.ask_store("slow", release.wait)))
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(act()))
    thread.start()
    thread.join()
    assert told == ["store_slow"]


def test_every_call_of_a_store_far_away_has_the_deadline(release: threading.Event) -> None:
    fsspec.register_implementation("odd", OddStore, clobber=True)
    OddStore.reset()
    store = Store.open("odd://flow")
    store.write("x", b"1")
    OddStore.before = staticmethod(lambda _operation, _path: release.wait())  # type: ignore[assignment]
    with access.using_access(Access(until=until(60), breaker=Noted())):
        codes = {
            code_of(lambda: store.read("x", 9)),
            code_of(store.entries),
            code_of(lambda: Store.open("odd://flow").walk()),
        }
    release.set()
    OddStore.reset()
    assert codes == {"store_silent"}


def test_the_mount_of_a_path_is_told_without_touching_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        "2 1 0:5 / /far rw - nfs4 host:/x rw\n"
        "3 2 0:6 / /far/near rw - tmpfs tmpfs rw\n"
        "4 1 0:7 / /two\\040words rw - fuse.s3fs s3fs rw\n"
    )
    real = Path.open
    monkeypatch.setattr(
        Path, "open", lambda self: real(mounts if str(self) == "/proc/self/mountinfo" else self)
    )
    asked = ("/far/x", "/far", "/far/near/x", "/farther", "/two words/x", "/x")
    assert [local.mount_of(path) for path in asked] == ["/far", "/far", "", "", "/two words", ""]
