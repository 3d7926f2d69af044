"""What one pipeline does to a table shows at those who read it in others, without a question to those pipelines."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from recovery.models import Flow, Workspace
from recovery.pipelines import across
from recovery.pipelines.inventory import refresh
from tests.unit.pipelines.api import START, Api, Pipeline
from tests.unit.pipelines.stub import Stub, serving

pytestmark = pytest.mark.django_db

ORDERS, DAILY, WEEKLY = "main.shop.orders", "main.report.daily", "main.board.weekly"
READS = {ORDERS: "a.b.raw", DAILY: ORDERS, WEEKLY: DAILY}
KINDS = {ORDERS: "APPEND", DAILY: "MATERIALIZED_VIEW", WEEKLY: "MATERIALIZED_VIEW"}


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def workspace(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("ACROSS_TOKEN", "rp_x")
    with serving(api) as stub:
        yield made("main", stub)


def made(name: str, stub: Stub) -> Workspace:
    return Workspace.objects.create(
        name=name, url=stub.url, token_ref="env:ACROSS_TOKEN", environment="development"
    )


@pytest.fixture
def shops(api: Api) -> dict[str, Pipeline]:
    """Three pipelines; the last two read what the one before them writes."""
    return {
        ORDERS: api.add("p1", "shop"),
        DAILY: api.add("p2", "report"),
        WEEKLY: api.add("p3", "board"),
    }


def run(
    pipeline: Pipeline, dataset: str, hour: int, status: str = "COMPLETED", *, anew: bool = False
) -> None:
    """One update that begins in this hour; `anew`: a full refresh."""
    pipeline.clock = START + timedelta(hours=hour - 1)
    name = f"u{hour}"
    pipeline.begin(name, {}, full_refresh=anew)
    told = {"output_dataset": dataset, "input_datasets": [READS[dataset]], "flow_type": KINDS[dataset]}
    pipeline.event(name, "flow_definition", told, dataset)
    pipeline.event(
        name, "x_reprise_emptied", {"datasets": [dataset] if anew or KINDS[dataset] != "APPEND" else []}
    )
    pipeline.fail(name, dataset) if status == "FAILED" else pipeline.status(name, dataset, status)
    pipeline.end(name, "FAILED" if status == "FAILED" else "COMPLETED")


def states(workspace: Workspace) -> dict[str, tuple[str, str]]:
    refresh(workspace_id=workspace.pk)
    return {f.dataset: (f.state, f.behind_why) for f in Flow.objects.all()}


OK = ("ok", "")
STALE, OF_BEHIND = ("stale", "renewed"), ("stale", "of_behind")


def test_a_full_refresh_leaves_the_readers_of_other_pipelines_stale_until_they_run(
    workspace: Workspace, shops: dict[str, Pipeline]
) -> None:
    for hour, dataset in enumerate(shops, start=1):
        run(shops[dataset], dataset, hour)
    assert states(workspace) == {ORDERS: OK, DAILY: OK, WEEKLY: OK}

    run(shops[ORDERS], ORDERS, 10)
    assert states(workspace) == {ORDERS: OK, DAILY: OK, WEEKLY: OK}, "a schedule of its own is no fault"
    run(shops[ORDERS], ORDERS, 11, anew=True)
    assert states(workspace) == {ORDERS: OK, DAILY: STALE, WEEKLY: OF_BEHIND}
    run(shops[WEEKLY], WEEKLY, 12)
    assert states(workspace) == {ORDERS: OK, DAILY: STALE, WEEKLY: OF_BEHIND}, "it read what is stale"
    run(shops[DAILY], DAILY, 13)
    assert states(workspace) == {ORDERS: OK, DAILY: OK, WEEKLY: STALE}, "it read what was stale"
    run(shops[WEEKLY], WEEKLY, 14)
    assert states(workspace) == {ORDERS: OK, DAILY: OK, WEEKLY: OK}
    assert not Flow.objects.exclude(behind_since=None).exists()


@pytest.mark.parametrize("first", [ORDERS, WEEKLY])
def test_it_does_not_matter_which_pipeline_is_polled_first(
    workspace: Workspace, api: Api, shops: dict[str, Pipeline], first: str
) -> None:
    run(shops[DAILY], DAILY, 2)
    run(shops[WEEKLY], WEEKLY, 3)
    run(shops[ORDERS], ORDERS, 4, anew=True)
    api.pipelines = dict(sorted(api.pipelines.items(), key=lambda p: p[1] is not shops[first]))
    assert states(workspace) == {ORDERS: OK, DAILY: STALE, WEEKLY: OF_BEHIND}


def test_an_emptied_view_leaves_its_reader_elsewhere_stale_and_a_failing_reader_failed(
    workspace: Workspace, shops: dict[str, Pipeline]
) -> None:
    run(shops[WEEKLY], WEEKLY, 1)
    run(shops[DAILY], DAILY, 2, "SKIPPED")
    assert states(workspace) == {DAILY: ("empty", "emptied"), WEEKLY: OF_BEHIND}
    run(shops[WEEKLY], WEEKLY, 3, "FAILED")
    assert states(workspace)[WEEKLY] == ("failed", "emptied"), "its own update emptied it meanwhile"


def test_the_same_name_in_another_workspace_is_another_table(
    workspace: Workspace, shops: dict[str, Pipeline]
) -> None:
    run(shops[DAILY], DAILY, 1)
    states(workspace)
    other = Api()
    run(other.add("p9", "shop"), ORDERS, 2, anew=True)
    with serving(other) as stub:
        assert states(made("other", stub))[DAILY] == OK


def test_what_stands_below_a_flow_is_seen_through_every_pipeline(
    workspace: Workspace, shops: dict[str, Pipeline]
) -> None:
    for hour, dataset in enumerate(shops, start=1):
        run(shops[dataset], dataset, hour)
    states(workspace)
    found = across.flows_below(Flow.objects.get(dataset=ORDERS))
    assert [(n.dataset, f.pipeline.name) for n, f in found] == [(DAILY, "report"), (WEEKLY, "board")]


def test_names_that_json_writes_otherwise_are_read_as_well(
    workspace: Workspace, shops: dict[str, Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    umlaut = 'main.shop.größe "1"\\'
    monkeypatch.setitem(READS, DAILY, umlaut)
    run(shops[DAILY], DAILY, 1)
    states(workspace)
    assert [f.dataset for f in across.readers_of(workspace.pk, {umlaut})] == [DAILY]
    assert [f.dataset for f in across.readers_of(workspace.pk, {umlaut, *map(str, range(60))})] == [DAILY]
    assert not across.readers_of(workspace.pk, {"main.shop.gr"}).exists()
