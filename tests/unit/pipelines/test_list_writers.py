"""Two transactions that change one pipeline at the same moment: the list shows what both of them have written.

Each has a connection of its own, on a database as an instance has it; the one derives its list while the other is
between its change and its end.
"""

import pytest

from tests.instances import Instances

pytestmark = pytest.mark.database
WORK = """
from threading import Event, Thread
from django.db import connection, transaction
from django.utils import timezone
from recovery.contracts.readers import SourceReader
from recovery.models import Flow, FlowInput, Listed, Pipeline, Workspace
from recovery.pipelines import listing
from recovery.pipelines.inputs import note_sources

now = timezone.now()
here = Workspace.objects.create(name="here", url="http://127.0.0.1:1", token_ref="env:X", environment="production")
pipeline = Pipeline.objects.create(
    workspace=here, pipeline_id="p", name="p", environment="production", state="IDLE", seen_at=now, judged="ok"
)
flow = Flow.objects.create(pipeline=pipeline, name="a.b.c", short="c", state="ok", updated_at=now)
FILES = SourceReader("csv", "/in", location="/in")
SLOW = {
    "pipeline": lambda: Pipeline.objects.filter(pk=pipeline.pk).update(name="q"),
    "flow": lambda: Flow.objects.filter(pk=flow.pk).update(short="d"),
    "source": lambda: note_sources(flow, [FILES]),
    "saved": lambda: Pipeline.objects.get(pk=pipeline.pk).save(),
}
derived, ended = Event(), Event()
real = listing._derive

def derive(keys):
    found = list(real(keys))
    if connection.slow:
        derived.set()
        ended.wait(3)  # the other one, where nothing keeps it from ending
    return found

listing._derive = derive

def slow(act):
    connection.ensure_connection()
    connection.slow = True
    with transaction.atomic():
        SLOW[act]()
    connection.close()

def fast():
    connection.slow = False
    derived.wait(30)
    with transaction.atomic():
        Flow.objects.filter(pk=flow.pk).update(state="failed", condition="X", failing_since=now)
    ended.set()
    connection.close()

def one(act):
    threads = [Thread(target=slow, args=(act,)), Thread(target=fast)]
    [t.start() for t in threads], [t.join() for t in threads]
    row = Listed.objects.get(flow=flow)
    return [row.state, row.broken, row.condition, Flow.objects.get().state]

connection.slow = False
print(json.dumps(one(act)))
"""


@pytest.mark.parametrize("act", ["pipeline", "flow", "source", "saved"])
def test_a_failure_that_comes_into_another_change_is_in_the_list(instances: Instances, act: str) -> None:
    assert instances.migrated().python(f"act = {act!r}\n{WORK}") == ["failed", True, "X", "failed"]
