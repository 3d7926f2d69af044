"""Checkpoints on a real S3-compatible server: the same answers as on disk, few requests, a crash that shows."""

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest

from recovery.checkpoints import inspect_checkpoint, list_versions, read_fingerprint, seed
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.seed import SeedState
from recovery.checkpoints.storage import Store
from recovery.errors import Refused, RepriseError, Unreachable, WrongUse
from tests.checkpoint_builder import Built, sink_log
from tests.s3 import S3Server, reached_by, upload
from tests.unit.checkpoints.seeding import free

Damage = Callable[[Path], object]

# Done to flow/0, which has three committed batches; the table beside it ends at batch 2. No sidecars: Hadoop
# writes them on a local file system alone.
DAMAGES: dict[str, Damage] = {
    "none": lambda c: None,
    "a planned batch": lambda c: (c / "commits/2").unlink(),
    "metadata missing": lambda c: (c / "metadata").unlink(),
    "metadata empty": lambda c: (c / "metadata").write_text(""),
    "newest offset missing": lambda c: (c / "offsets/2").unlink(),
    "newest offset empty": lambda c: (c / "offsets/2").write_text(""),
    "commit of a newer Spark": lambda c: (c / "commits/2").write_text("v9\n{}"),
    "source log header only": lambda c: (c / "sources/0/1").write_text("v1"),
    "source log gone": lambda c: shutil.rmtree(c / "sources"),
    "a partition gone": lambda c: shutil.rmtree(c / "state/0/1"),
    "operator metadata gone": lambda c: shutil.rmtree(c / "state/0/_metadata"),
    "no checkpoint at all": lambda c: [
        shutil.rmtree(c),
        (c / "some").mkdir(parents=True),
        (c / "some/x").touch(),
    ],
    "sink ahead": lambda c: (c.parent.parent / "table/_spark_metadata/3").write_text("v1"),
    "sink log with a hole": lambda c: (c.parent.parent / "table/_spark_metadata/1").unlink(),
    "sink log empty": lambda c: (c.parent.parent / "table/_spark_metadata/2").write_text(""),
}


def built(folder: Path) -> Path:
    """`folder`/flow/0 and /table, as a run of three batches leaves them on an object store."""
    Built(folder / "flow/0", batches=3, sidecars=False).write()
    sink_log(folder / "table", 2)
    for sidecar in [*folder.rglob(".*.crc")]:
        sidecar.unlink()
    return folder


@pytest.fixture(params=["memory", "s3"])
def put(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], str]]:
    """Copies a folder to a store of this kind; gives its URL."""
    key = uuid.uuid4().hex

    def place(folder: Path) -> str:
        if request.param == "memory":
            upload(folder, f"memory://{key}")
            return f"memory://{key}"
        url = str(request.getfixturevalue("s3").url(key))
        upload(folder, url)
        return url

    yield place
    fsspec.filesystem("memory").store.clear()


def where(report: CheckpointReport, base: str) -> CheckpointReport:
    """The report without the one thing that differs: the place."""
    assert report.location.startswith(base)
    return replace(report, location=report.location.removeprefix(base))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_store_gives_the_same_report_as_a_disk(
    put: Callable[[Path], str], tmp_path: Path, damage: str
) -> None:
    folder = built(tmp_path / "lab")
    DAMAGES[damage](folder / "flow/0")
    base, disk = put(folder), str(folder)
    for place in ("flow", "flow/0"):
        near = inspect_checkpoint(f"{disk}/{place}", sink=f"{disk}/table", deep=True)
        far = inspect_checkpoint(f"{base}/{place}", sink=f"{base}/table", deep=True)
        assert where(far, base) == where(near, disk)
        assert read_fingerprint(f"{base}/{place}") == near.fingerprint
    assert list_versions(f"{base}/flow") == list_versions(f"{disk}/flow") == [0]
    assert list_versions(f"{base}/never") == []


def test_a_seed_on_a_store_holds_what_one_on_a_disk_holds(put: Callable[[Path], str], tmp_path: Path) -> None:
    folder = built(tmp_path / "lab")
    flows = [f"{put(folder)}/flow", str(folder / "flow")]
    before = [read_fingerprint(f"{flow}/0") for flow in flows]
    held = []
    for flow in flows:
        assert seed.probe_outcome(flow, recovery="R-1").state is SeedState.NOTHING
        prepared = prepare(flow)
        assert seed.probe_outcome(flow, recovery="R-1").state is SeedState.PREPARED
        assert list_versions(flow) == [0]
        assert seed.publish_checkpoint(flow, prepared, guard=free) == 1
        assert seed.probe_outcome(flow, recovery="R-1").published == 1
        seed.clean_leftovers(flow, recovery="R-1")
        new = inspect_checkpoint(flow)
        held.append(replace(new, location="", query_id="", fingerprint="", exact_fingerprint="").as_dict())
        with pytest.raises(Refused, match="in place already"):
            prepare(flow)
        seed.undo_publish(flow, recovery="R-1", sink_head=2)
        assert list_versions(flow) == [0]
        assert seed.probe_outcome(flow, recovery="R-1").state is SeedState.UNDONE
    assert held[0] == held[1]
    assert [read_fingerprint(f"{flow}/0") for flow in flows] == before


@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
def test_sparks_schemes_name_the_same_place(s3: S3Server, tmp_path: Path, scheme: str) -> None:
    key = uuid.uuid4().hex
    upload(built(tmp_path / "lab"), s3.url(key))
    ours, sparks = s3.url(key), s3.url(key, scheme)
    report = inspect_checkpoint(f"{sparks}/flow", sink=f"{sparks}/table")
    assert where(report, sparks) == where(inspect_checkpoint(f"{ours}/flow", sink=f"{ours}/table"), ours)
    assert seed.publish_checkpoint(f"{sparks}/flow", prepare(f"{sparks}/flow"), guard=free) == 1
    assert seed.probe_outcome(f"{ours}/flow", recovery="R-1").published == 1


def test_a_version_that_appeared_meanwhile_is_never_written_into(s3: S3Server, tmp_path: Path) -> None:
    flow = s3.url(uuid.uuid4().hex)
    upload(built(tmp_path / "lab") / "flow", flow)
    store = Store.open(flow)
    store.write(".reprise-R-1/metadata", b"{}")
    for marker in ("1/", "1/metadata"):
        store.fs.fs.call_s3("put_object", Bucket=store.root.split("/")[0], Key=f"{store.root[4:]}/{marker}")
        with pytest.raises(FileExistsError):
            store.rename(".reprise-R-1", "1")
        store.remove("1")
        assert not store.exists("1")
    store.rename(".reprise-R-1", "1")
    assert list_versions(flow) == [0, 1]


def prepare(flow: str) -> seed.PreparedCheckpoint:
    return seed.prepare_seed(
        flow, seed.plan_seed(inspect_checkpoint(flow)), recovery="R-1", fence=1, guard=free
    )


@dataclass
class Requests:
    """What was asked of the S3 client: (operation, key or prefix). From the `dies_at`th write on all fail."""

    seen: list[tuple[str, str]]
    dies_at: int | None = None
    writes: int = 0


class Died(Exception):
    """The worker was killed here: this request and all later ones never happen."""


@pytest.fixture
def requests(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Requests:
    counted = Requests([])
    lock = threading.Lock()
    client = fsspec.get_filesystem_class("s3")
    real = client._call_s3

    async def counting(self: Any, method: str, *given: Any, **words: Any) -> Any:
        with lock:
            counted.seen.append((method, words.get("Key", words.get("Prefix", ""))))
            counted.writes += method not in ("list_objects_v2", "head_object", "get_object")
            if counted.dies_at is not None and counted.writes >= counted.dies_at:
                raise Died
        return await real(self, method, *given, **words)

    monkeypatch.setattr(client, "_call_s3", counting)
    monkeypatch.setattr(client, "call_s3", fsspec.asyn.sync_wrapper(counting))
    return counted


@pytest.mark.parametrize("batches", [5, 12])  # without and with a compacted log
def test_requests_are_one_listing_and_one_read_for_each_log_file(
    s3: S3Server, requests: Requests, tmp_path: Path, batches: int
) -> None:
    key = uuid.uuid4().hex
    Built(tmp_path / "0", batches=batches, partitions=8, sidecars=False).write()
    upload(tmp_path, s3.url(key))
    requests.seen.clear()
    report = inspect_checkpoint(s3.url(key))
    files = [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()]
    read = sorted(k.removeprefix(f"{key}/") for method, k in requests.seen if method == "get_object")
    logs = [f for f in files if not f.startswith("0/state/") or "_metadata" in f]
    newest = max((int(f.split("/")[-1].split(".")[0]) for f in files if f.endswith(".compact")), default=-1)
    dead = [f for f in logs if "sources" in f and int(f.split("/")[-1].split(".")[0]) < newest]
    assert read == sorted(set(logs) - set(dead))
    others = [(method, name) for method, name in requests.seen if method != "get_object"]
    assert {method for method, _ in others} == {"list_objects_v2"}
    assert len(others) <= 3 + len(files) // 1000
    assert all(name.startswith(f"{key}/") for _, name in others)
    assert report.last_committed == batches - 1


def test_a_bucket_that_is_no_checkpoint_is_not_walked(
    s3: S3Server, requests: Requests, tmp_path: Path
) -> None:
    upload(built(tmp_path / "lab"), s3.url("deep/down"))
    requests.seen.clear()
    report = inspect_checkpoint("s3://lab")
    assert [f.code for f in report.findings] == ["NOT_A_CHECKPOINT"]
    assert {method for method, _ in requests.seen} == {"list_objects_v2"}
    assert len(requests.seen) <= 2


def test_what_is_missing_is_not_searched_for_above(s3: S3Server, requests: Requests) -> None:
    with pytest.raises(Unreachable, match="s3://lab/a/missing does not exist"):
        inspect_checkpoint("s3://lab/a/missing")
    assert list_versions("s3://lab/a/missing") == []
    assert {name for _, name in requests.seen} == {"a/missing/", "a/missing"}


@pytest.mark.parametrize("marker", ["{}/", "{}_$folder$"])
def test_markers_of_folders_are_not_files(s3: S3Server, tmp_path: Path, marker: str) -> None:
    folder, key = built(tmp_path / "lab"), uuid.uuid4().hex
    url = s3.url(key)
    upload(folder, url)
    without = inspect_checkpoint(f"{url}/flow", sink=f"{url}/table")
    call = Store.open(url).fs.fs.call_s3
    for name in ("flow", "flow/0", "flow/0/offsets", "flow/0/commits", "flow/0/sources", "flow/0/sources/0",
                 "flow/0/state", "flow/0/state/0", "flow/0/state/0/0", "table/_spark_metadata"):  # fmt: skip
        call("put_object", Bucket="lab", Key=f"{key}/{marker.format(name)}", Body=b"")
    assert inspect_checkpoint(f"{url}/flow", sink=f"{url}/table") == without
    assert seed.publish_checkpoint(f"{url}/flow", prepare(f"{url}/flow"), guard=free) == 1
    names = {n for n, _ in Store.open(f"{url}/flow").fs.keys(f"lab/{key}/flow")}
    assert not [n for n in names if ".reprise-R-1/" in n]


# Put, copy and delete requests for the seed of `built`; the test below keeps them true.
WRITES_OF_A_SEED, WRITES_OF_AN_UNDO = 19, 9


def test_the_number_of_write_requests_is_known(s3: S3Server, requests: Requests, tmp_path: Path) -> None:
    flow = s3.url(uuid.uuid4().hex)
    upload(built(tmp_path / "lab") / "flow", flow)
    requests.writes = 0
    seed.publish_checkpoint(flow, prepare(flow), guard=free)
    assert requests.writes == WRITES_OF_A_SEED
    seed.undo_publish(flow, recovery="R-1", sink_head=None)
    assert requests.writes == WRITES_OF_A_SEED + WRITES_OF_AN_UNDO


@pytest.mark.parametrize("nth", range(1, WRITES_OF_A_SEED + 1))
def test_a_worker_killed_at_any_write_leaves_what_the_next_one_recognises(
    s3: S3Server, requests: Requests, tmp_path: Path, nth: int
) -> None:
    flow = s3.url(uuid.uuid4().hex)
    upload(built(tmp_path / "lab") / "flow", flow)
    before = read_fingerprint(f"{flow}/0")
    requests.writes, requests.dies_at = 0, nth
    with pytest.raises(RepriseError):
        seed.publish_checkpoint(flow, prepare(flow), guard=free)
    requests.dies_at = None
    outcome = seed.probe_outcome(flow, recovery="R-1")
    assert read_fingerprint(f"{flow}/0") == before
    assert Store.open(flow).exists("1/metadata") == (outcome.published == 1)
    if outcome.state is SeedState.UNCLEAR:
        assert "a copy or a removal has stopped midway" in outcome.evidence[-1].says
        Store.open(flow).remove("1")  # as the evidence tells a person to do
    if outcome.published is None:
        seed.clean_leftovers(flow, recovery="R-1")
        assert seed.publish_checkpoint(flow, prepare(flow), guard=free) == 1
    seed.clean_leftovers(flow, recovery="R-1")
    assert seed.probe_outcome(flow, recovery="R-1").published == 1
    assert inspect_checkpoint(flow).findings == ()
    assert not [n for n, _ in Store.open(flow).fs.keys(Store.open(flow).root) if ".reprise-R-1/" in n]


@pytest.mark.parametrize("nth", range(1, WRITES_OF_AN_UNDO + 1))
def test_an_undo_killed_at_any_write_is_recognised(
    s3: S3Server, requests: Requests, tmp_path: Path, nth: int
) -> None:
    flow = s3.url(uuid.uuid4().hex)
    upload(built(tmp_path / "lab") / "flow", flow)
    seed.publish_checkpoint(flow, prepare(flow), guard=free)
    requests.writes, requests.dies_at = 0, nth
    with pytest.raises(RepriseError):
        seed.undo_publish(flow, recovery="R-1", sink_head=None)
    requests.dies_at = None
    outcome = seed.probe_outcome(flow, recovery="R-1")
    if Store.open(flow).exists("1/metadata"):
        assert outcome.published == 1
    else:
        assert outcome.state is (SeedState.UNCLEAR if Store.open(flow).exists("1") else SeedState.UNDONE)


LOOKS: list[Callable[[str], object]] = [
    inspect_checkpoint,
    read_fingerprint,
    list_versions,
    lambda url: seed.probe_outcome(url, recovery="R-1"),
    lambda url: seed.clean_leftovers(url, recovery="R-1"),
]


@pytest.mark.parametrize("look", LOOKS, ids=["inspect", "fingerprint", "versions", "probe", "clean"])
@pytest.mark.parametrize(
    ("url", "secret", "says"),
    [
        ("s3://lab/x", "a wrong one", "the storage refuses access; check its key, secret and rights"),
        ("s3a://nowhere/x", None, "s3a://nowhere/x cannot be read .there is no such bucket"),
    ],
)
def test_what_is_refused_or_missing_is_one_sentence(
    s3_server: S3Server, look: Callable[[str], object], url: str, secret: str | None, says: str
) -> None:
    options = s3_server.options(secret) if secret else s3_server.options()
    with reached_by(options), pytest.raises(Unreachable, match=says):
        look(url)


class Silent(BaseHTTPRequestHandler):
    """Accepts and never answers in time."""

    def do_GET(self) -> None:
        self.server.wakes.wait(30)  # type: ignore[attr-defined]

    do_HEAD = do_GET


@pytest.mark.parametrize("look", LOOKS, ids=["inspect", "fingerprint", "versions", "probe", "clean"])
@pytest.mark.parametrize("gone", [True, False], ids=["gone", "silent"])
def test_a_server_that_is_gone_or_silent_is_one_sentence_in_bounded_time(
    s3_server: S3Server, look: Callable[[str], object], gone: bool
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        server.wakes = threading.Event()  # type: ignore[attr-defined]
        port = server.server_address[1]
        if gone:
            server.server_close()
        else:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        options = s3_server.options() | {"endpoint_url": f"http://127.0.0.1:{port}"}
        options["config_kwargs"] |= {"read_timeout": 0.3, "retries": {"total_max_attempts": 2}}
        began = time.monotonic()
        with reached_by(options), pytest.raises(Unreachable, match="s3://lab/x cannot be read") as told:
            look("s3://lab/x")
        assert time.monotonic() - began < 15
        assert "\n" not in str(told.value)
        if not gone:
            server.wakes.set()  # type: ignore[attr-defined]
            server.shutdown()


def test_an_address_without_a_bucket_is_wrong_use() -> None:
    with pytest.raises(WrongUse, match="s3a:// cannot be opened: it names no bucket"):
        inspect_checkpoint("s3a://")
