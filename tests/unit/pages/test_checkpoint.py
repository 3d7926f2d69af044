"""The checkpoint page of a flow over checkpoints on disk: report, one batch, two batches, files, versions."""

from pathlib import Path

import pytest
from django.test import Client

from console.presenters import charts, words
from recovery.checkpoints.report import Outcome
from recovery.models import Flow
from tests import factories
from tests.checkpoint_builder import STARTED_MS, Built, put
from tests.pages import Element, asked, parse

pytestmark = pytest.mark.django_db


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    owner = factories.pipeline(spec={"storage": tmp_path.as_uri()})
    return factories.failed_flow(owner)


@pytest.fixture
def place(flow: Flow, tmp_path: Path) -> Path:
    """Where the flow's versions lie."""
    return tmp_path / "_checkpoints" / flow.dataset.replace(".", "/") / flow.short


def text(client: Client, flow: Flow, query: str = "", status: int = 200) -> str:
    answer = client.get(f"/flows/{flow.pk}/checkpoint{query}")
    assert answer.status_code == status
    body = answer.content.decode()
    return " ".join(body.replace("<wbr>", "").split())


def next_runs(page: Element) -> list[str]:
    """What the next run comes to: of the whole, then of each finding."""
    return [e.attributes["data-value"] for e in page.all(data_code="next-run")]


def test_the_report_leads_to_batches_files_and_versions(responder: Client, flow: Flow, place: Path) -> None:
    Built(place / "0").write()
    Built(place / "1", planned=1).write()

    page = text(responder, flow)

    for part in ('href="?batch=3"', 'href="?files=0"', 'href="?version=0"', "in use", "Show what differs"):
        assert part in page
    assert "version-not-in-use" not in parse(page).codes
    assert {"STATE_OPERATOR_NOT_IN_CODE"} <= set(parse(page).codes)
    assert next_runs(parse(page)) == [Outcome.FAILS] * 2


def test_the_next_run_goes_on_only_with_code_that_fits(responder: Client, flow: Flow, place: Path) -> None:
    Built(place / "0").write()
    Flow.objects.filter(pk=flow.pk).update(state="ok")

    assert next_runs(asked(responder, f"/flows/{flow.pk}/checkpoint")) == [Outcome.GOES_ON]


def test_what_the_next_run_comes_to_is_said_of_the_whole_and_of_each_finding(
    responder: Client, flow: Flow, place: Path
) -> None:
    Built(place / "0").write()
    (place / "0/sources/0/1").write_text("v1")

    seen = next_runs(asked(responder, f"/flows/{flow.pk}/checkpoint"))
    assert seen == [Outcome.FAILS, Outcome.FAILS, Outcome.DOUBLES]


def test_another_flow_that_writes_the_same_file_table_is_named(
    responder: Client, flow: Flow, place: Path
) -> None:
    Built(place / "0").write()
    factories.failed_flow(factories.pipeline(name="other", spec={"storage": "file:///elsewhere"}))
    Flow.objects.filter(pk=flow.pk).update(last_progress={"sink": {"description": "FileSink[file:/t]"}})

    page = asked(responder, f"/flows/{flow.pk}/checkpoint")

    assert "(other)" in page.one("SINK_SHARED").text
    assert set(next_runs(page)) == {Outcome.FAILS, Outcome.LOSES}


def test_an_older_version_is_shown_as_one_that_is_not_in_use(
    responder: Client, flow: Flow, place: Path
) -> None:
    Built(place / "0").write()
    Built(place / "1", planned=1).write()

    page = asked(responder, f"/flows/{flow.pk}/checkpoint?version=0")

    assert page.value("version-not-in-use") == "0"
    assert "?version=0&batch=2" in page.links()


def test_a_batch_shows_positions_files_and_commit(responder: Client, flow: Flow, place: Path) -> None:
    Built(place / "0", planned=1, files_per_batch=2).write()

    page = text(responder, flow, "?batch=3")

    for part in (
        "Batch 3",
        "Not committed",
        "files: 2 files, part 000006.json to part 000007.json",
        "{&quot;logOffset&quot;:2}",
        "{&quot;logOffset&quot;:3}",
        "Settings that a restart takes from this batch",
    ):
        assert part in page


def test_two_batches_show_what_differs_and_only_that(responder: Client, flow: Flow, place: Path) -> None:
    Built(place / "0", batches=4).write()

    page = asked(responder, f"/flows/{flow.pk}/checkpoint?batch=3&beside=1")

    assert page.value("between") == "1-3"
    files = [row.text.split()[0:2] for row in page.all("th", scope="row") if "part" in row.text]
    assert files == [["part", "000002.json"], ["part", "000003.json"]]
    assert [e.attributes["data-value"] for e in page.all(data_code="same-in-both")] == ["Value", "Setting"]
    assert page.value("not-told") == "Operator"


def test_a_hundred_files_a_page_are_shown_and_never_all(responder: Client, flow: Flow, place: Path) -> None:
    Built(place / "0", batches=20, files_per_batch=12).write()  # 240 files

    pages = [text(responder, flow, f"?files=0&page={n}") for n in (1, 2, 3)]

    assert [p.count('data-label="Log entry"') for p in pages] == [100, 100, 40]
    assert "Page 2 of 3" in pages[1]
    assert "part 000239.json" in pages[0]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?batch=77", "It holds batches 0 to 2."),
        ("?batch=-1", "which is no number"),
        ("?batch=1&beside=x", "which is no number"),
        ("?batch=%F3%A0%81%A1", "which is no number"),
        ("?files=..", "keeps no log"),
        ("?files=0&page=x", "which is no number"),
        ("?version=one", "which is no number"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    responder: Client, flow: Flow, place: Path, query: str, says: str
) -> None:
    Built(place / "0").write()

    assert says in text(responder, flow, query, status=404)


@pytest.mark.parametrize("query", ["", "?batch=2", "?batch=1&beside=2", "?files=0"])
@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("offsets/2", "junk"),
        (
            "offsets/2",
            'v1\n{"batchWatermarkMs":99999999999999999999,"batchTimestampMs":-99999999999999999}\n-',
        ),
        ("commits/2", "v1\n{}"),
        ("sources/0/2", 'v1\n{"path":"<script>","timestamp":99999999999999999,"batchId":2}'),
    ],
)
def test_no_damage_breaks_a_page(
    responder: Client, flow: Flow, place: Path, file: str, content: str, query: str
) -> None:
    Built(place / "0").write()
    put(place / "0" / file, content)

    assert '<script>"' not in text(responder, flow, query)


@pytest.mark.parametrize("query", ["", "?batch=2", "?files=0", "?version=4"])
def test_a_checkpoint_that_cannot_be_reached_is_said(responder: Client, flow: Flow, query: str) -> None:
    assert asked(responder, f"/flows/{flow.pk}/checkpoint{query}").one("unreachable")


def test_a_number_that_is_no_date_is_unknown() -> None:
    assert words.parse_moment(10**20) is None
    assert words.parse_moment(STARTED_MS) is not None


def test_state_growth_is_drawn_by_batch_with_its_unit() -> None:
    operators = [
        {
            "operator_id": 0,
            "growth": [{"version": v, "files": 2, "size_bytes": v * 1024} for v in range(1, 10)],
        },
        {"operator_id": 1, "growth": []},
    ]

    (chart,) = charts.of_growth(operators)

    assert (chart.name, chart.unit) == ("State written, operator 0", "KiB per batch")
    assert [(b.label, b.value) for b in chart.bars] == [(str(n), str(float(n + 1))) for n in range(3, 9)]


@pytest.mark.parametrize(
    ("numbers", "said"), [([], ""), ([3], "3"), ([0, 1, 2, 5], "0 to 2, 5"), ([1, 3], "1, 3")]
)
def test_numbers_are_said_as_ranges(numbers: list[int], said: str) -> None:
    assert words.format_ranges(numbers) == said
