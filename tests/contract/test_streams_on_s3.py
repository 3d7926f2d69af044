"""A plain stream whose checkpoint, table and event log are on an S3-compatible server joins the list by command."""

from pathlib import Path

import pytest

from recovery.models import Flow
from recovery.people.roles import Role
from tests.checkpoint_builder import Built, sink_log
from tests.s3 import S3Server, upload
from tests.unit.eventlogs import logs
from tests.unit.people.run import run_json, token_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def place(s3: S3Server, tmp_path: Path) -> str:
    """A URL below which are a checkpoint of a failed query, its table, and its event log."""
    root = tmp_path / "lake"
    Built(root / "checkpoints/orders", query_id=logs.QUERY, sidecars=False).write()
    sink_log(root / "tables/orders", 2)
    (root / "events").mkdir()
    told = [
        *logs.started(), logs.query_started(), logs.batch_plan(), logs.progress(0), logs.progress(1),
        logs.terminated(logs.FAILURE), logs.ended(),
    ]  # fmt: skip
    (root / "events/local-1.zstd").write_bytes(logs.zstd(told))
    for sidecar in root.rglob(".*.crc"):
        sidecar.unlink()
    url = s3.url(f"adopted-{tmp_path.name}")
    upload(root, url)
    return url


@pytest.fixture
def responder() -> str:
    return token_of("rita", Role.RESPONDER)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_it_is_adopted_and_its_failure_diagnosed(
    monkeypatch: pytest.MonkeyPatch, place: str, responder: str, scheme: str
) -> None:
    url = place.replace("s3://", f"{scheme}://")
    code, told = run_json(
        monkeypatch, responder, "adopt", f"{url}/checkpoints/orders", "--sink", f"{url}/tables/orders",
        "--event-log", f"{url}/events",
    )  # fmt: skip
    assert (code, told["flow"], told["state"]) == (0, "orders", "failed")
    assert (told["query_id"], told["sink"]) == (logs.QUERY, f"{url}/tables/orders")
    code, found = run_json(monkeypatch, responder, "diagnose", told["pipeline"])
    assert (code, found["diagnosis"]["condition"]) == (1, Flow.objects.get().condition)
    other = "s3a" if scheme == "s3" else "s3"
    code, again = run_json(
        monkeypatch, responder, "adopt", f"{place.replace('s3://', f'{other}://')}/checkpoints/orders"
    )
    assert (code, again["pipeline"]) == (0, told["pipeline"]), "one place, however its scheme is spelled"


def test_every_checkpoint_below_a_root_is_found_and_adopted(
    monkeypatch: pytest.MonkeyPatch, place: str, responder: str
) -> None:
    roots = ("adopt", "--roots", f"{place}/checkpoints", "--event-log", f"{place}/events")
    code, found = run_json(monkeypatch, responder, *roots, "--list")
    assert (code, found["found"], found["adopted"]) == (0, 1, 0)
    assert found["streams"][0]["query_id"] == logs.QUERY
    code, found = run_json(monkeypatch, responder, *roots)
    assert (code, found["adopted"], found["problems"]) == (0, 1, [])
    assert Flow.objects.get().state == "failed"


@pytest.mark.parametrize("url", ["checkpoints/nothing", "s3://no-such-bucket/orders"])
def test_of_a_place_that_is_not_there_nothing_is_adopted(
    monkeypatch: pytest.MonkeyPatch, place: str, responder: str, url: str
) -> None:
    wanted = url if "://" in url else f"{place}/{url}"
    code, told = run_json(monkeypatch, responder, "adopt", wanted)
    assert (code, told["error"]["code"]) == (2, "unreachable")
    assert not Flow.objects.exists()
