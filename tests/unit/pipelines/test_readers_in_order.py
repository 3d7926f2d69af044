"""Two polls that change pipelines which read each other's tables, at the same moment: neither ends the other.

Each has a connection of its own, on a database as an instance has it.
"""

import pytest

from recovery.models import Flow, Pipeline, Workspace
from recovery.pipelines import across
from tests.instances import Instances

WORK = """
from threading import Barrier, BrokenBarrierError, Thread
from django.db import connection
from django.utils import timezone
from recovery.models import Flow, Pipeline, Workspace
from recovery.pipelines import across

now = timezone.now()
here = Workspace.objects.create(name="here", url="http://127.0.0.1:1", token_ref="env:X", environment="production")
def made(name, other):
    pipeline = Pipeline.objects.create(
        workspace=here, pipeline_id=name, name=name, environment="production", state="IDLE", seen_at=now, judged="ok"
    )
    Flow.objects.create(
        pipeline=pipeline, name=f"a.b.{name}", dataset=f"a.b.{name}", inputs=[f"a.b.{other}"], short=name, state="ok",
        updated_at=now,
    )
    return pipeline
both = [made("one", "two"), made("two", "one")]
met, errors, runs = Barrier(2), [], []

def change(pipeline):
    def write(held):
        runs.append(sorted(held))
        Flow.objects.filter(pipeline=pipeline).update(last_batch=len(runs))
        try:
            met.wait(3)
        except BrokenBarrierError:
            pass  # the other one waits for this one's end
        across.judge_readers(pipeline, [f"a.b.{pipeline.name}"], held=held)
    try:
        across.write_in_order([pipeline.pk], write)
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")
    connection.close()

threads = [Thread(target=change, args=(p,)) for p in both]
[t.start() for t in threads], [t.join() for t in threads]
wrote = Flow.objects.exclude(last_batch=None).count()
print(json.dumps({"errors": errors, "held": max(map(len, runs)), "wrote": wrote}))
"""


@pytest.mark.database
def test_two_pipelines_that_read_each_other_are_judged_one_after_the_other(instances: Instances) -> None:
    assert instances.migrated().python(WORK) == {"errors": [], "held": 2, "wrote": 2}


@pytest.mark.django_db
def test_a_reader_that_is_not_held_undoes_the_change_and_is_held_in_the_next_try() -> None:
    here = Workspace.objects.create(
        name="here", url="http://127.0.0.1:1", token_ref="env:X", environment="staging"
    )
    writer, reader = (_pipeline(here, name, reads) for name, reads in (("w", "a.b.raw"), ("r", "a.b.w")))
    tries: list[tuple[frozenset[int], int]] = []

    def write(held: frozenset[int]) -> None:
        tries.append((held, Flow.objects.filter(last_batch=7).count()))
        Flow.objects.filter(pipeline=writer).update(last_batch=7)
        across.judge_readers(writer, ["a.b.w"], held=held)

    across.write_in_order([writer.pk], write)
    assert tries == [(frozenset({writer.pk}), 0), (frozenset({writer.pk, reader.pk}), 0)]
    assert Flow.objects.get(last_batch=7).pipeline == writer


def _pipeline(workspace: Workspace, name: str, reads: str) -> Pipeline:
    from django.utils import timezone

    row = Pipeline.objects.create(
        workspace=workspace, pipeline_id=name, name=name, state="IDLE", seen_at=timezone.now()
    )
    Flow.objects.create(
        pipeline=row, name=f"a.b.{name}", dataset=f"a.b.{name}", inputs=[reads], updated_at=timezone.now()
    )
    return row
