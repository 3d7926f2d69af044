"""The data files of before: pages beside a step, a digest in its row; old rows are read as they stand."""

import json

import pytest

from recovery.contracts import codec
from recovery.models import KeptFile, Step
from recovery.workflow import noted_files
from recovery.workflow.noted_files import EarlierDataFiles
from tests.refusals import refused
from tests.unit.workflow.rows import plan, recovery

pytestmark = pytest.mark.django_db
PLACE = "file:/t"
FILES = tuple(f"file:///t/k=a b/part-{n}.parquet" for n in range(5))
MARKS = {f"k=a b/part-{n}.parquet": [n, 1000 + n] for n in range(4)}  # the fifth is gone already


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Step:
    monkeypatch.setattr(noted_files, "PAGE", 2)
    return plan(recovery(), "stop").steps.get()


def noted(step: Step, files: tuple[str, ...] = FILES, marks: noted_files.Marks | None = MARKS) -> None:
    kept = codec.to_json(noted_files.keep(step, files, marks, place=PLACE))
    step.result = json.loads(json.dumps({"noted_files": kept}))


@pytest.mark.parametrize("marks", [MARKS, {}, None], ids=["marked", "none there", "not marked"])
def test_pages_give_back_files_and_marks(step: Step, marks: noted_files.Marks | None) -> None:
    noted(step, marks=marks)
    assert noted_files.read_noted_files(step, place=PLACE) == EarlierDataFiles(FILES, marks)
    assert KeptFile.objects.filter(step=step).count() == 3


def test_the_row_does_not_grow_with_the_table(step: Step) -> None:
    sizes = []
    for count in (2, 200):
        noted(step, tuple(f"file:///t/{n}" for n in range(count)))
        sizes.append(len(json.dumps(step.result)))
    assert sizes[1] - sizes[0] == len("200") - len("2")


def test_another_try_leaves_no_page_of_the_one_before(step: Step) -> None:
    noted(step)
    noted(step, FILES[:1])
    assert noted_files.read_noted_files(step, place=PLACE).files == FILES[:1]
    noted(step, ())
    assert noted_files.read_noted_files(step, place=PLACE) == EarlierDataFiles((), MARKS and {})
    assert KeptFile.objects.count() == 0


def test_a_step_of_before_there_were_pages_is_read_as_it_stands(step: Step) -> None:
    step.result = {"sink_files": list(FILES), "sink_marks": MARKS}
    assert noted_files.read_noted_files(step, place=PLACE) == EarlierDataFiles(FILES, MARKS)
    step.result = {"sink_files": []}  # older still
    assert noted_files.read_noted_files(step, place=PLACE) == EarlierDataFiles((), None)


def test_a_page_that_is_gone_or_another_says_so(step: Step) -> None:
    noted(step)
    KeptFile.objects.filter(step=step).last().delete()  # type: ignore[union-attr]
    with refused("noted_files_damaged"):
        noted_files.read_noted_files(step, place=PLACE)
