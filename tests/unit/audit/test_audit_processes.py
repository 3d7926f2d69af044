"""Real processes on one database: the chain does not fork, and a cut end is found. On both databases."""

import pytest

from tests.instances import Instances

pytestmark = pytest.mark.database
WRITE = """
for n in range(25):
    append_entry(action="step.run", outcome="done", by=SYSTEM, says=f"{os.getpid()} {n}")
"""
VERIFY = "print(json.dumps(verify_chain()))"
# As somebody who owns the database: its triggers are off meanwhile.
CUT = """
from django.db import connection
from recovery.audit import guard
from recovery.models import AuditEntry
guard.remove_triggers(connection)
with connection.cursor() as cursor: cursor.execute("DELETE FROM recovery_auditentry WHERE seq > 98")
guard.install_triggers(connection)
"""


def test_many_writers_make_one_chain_and_its_cut_end_is_found(instances: Instances) -> None:
    here = instances.migrated()
    writers = [here.begin(WRITE) for _ in range(4)]
    ends = [writer.wait(120) for writer in writers]
    assert [end.returncode for end in ends] == [0, 0, 0, 0], ends
    found = here.python(VERIFY)
    assert (found["ok"], found["entries"]) == (True, 100)

    found = here.python(CUT + VERIFY)
    assert (found["ok"], found["entries"]) == (False, 98)
    (problem,) = found["problems"]
    assert (problem["seq"], problem["code"]) == (99, "end_missing")
    assert "99 to 100" in problem["says"]
