"""What a function of the code writes is at-least-once, whatever table it is; files of it are none of a file sink."""

import pytest

from recovery.sinks.base import SinkReport
from recovery.workflow.gather import mark_written_by_function


@pytest.mark.parametrize(("kind", "becomes"), [("delta", "delta"), ("files", "foreach_batch")])
@pytest.mark.parametrize("told", [({"format": "foreachbatch"}, None), (None, {"format": "foreachBatch"})])
def test_a_table_that_a_function_writes_is_known_by_the_code_of_today_or_before(
    kind: str, becomes: str, told: tuple[dict[str, str] | None, ...]
) -> None:
    found = mark_written_by_function(SinkReport(kind, "/t", None), *told)
    assert (found.kind, found.by_function) == (becomes, True)


def test_any_other_sink_stays_what_it_is() -> None:
    report = SinkReport("delta", "/t", 3)
    assert mark_written_by_function(report, {"format": "delta"}, None) is report
