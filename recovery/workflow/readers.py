"""Where the code of now reads from, with the options of its readers: they may be secret."""

from collections.abc import Callable
from functools import cached_property

from recovery.contracts.readers import NO_READER, SourceReader
from recovery.numbers import whole
from recovery.spark.api import study
from recovery.workflow.flow_snapshot import NO_COUNTS, FlowSnapshot, request_for


class Readers:
    """The readers of a snapshot's code. Spark needs seconds to tell them: it is asked when one is wanted, and once.

    `snapshot` is looked at no earlier either. Every question raises what `flow_snapshot.read_flow_snapshot` and `study`
    raise.
    """

    def __init__(self, snapshot: Callable[[], FlowSnapshot]) -> None:
        self._snapshot = snapshot
        self._readers: tuple[SourceReader, ...] = ()

    def keep_answer(self, readers: tuple[SourceReader, ...]) -> None:
        """What another answer of Spark tells of the readers of the same code: it need not be asked again."""
        self._readers = readers

    @cached_property
    def in_plan_order(self) -> tuple[SourceReader, ...]:
        """Every reader in plan order; none where the code could not be analysed."""
        snapshot = self._snapshot()
        return self._readers or study(request_for(snapshot, snapshot.code, NO_COUNTS, ())).sources

    def find_reader(self, number: str) -> SourceReader:
        """The reader of a source, by its index as text; NO_READER where there is none."""
        index = whole(number)
        known = index is not None and index < len(self.in_plan_order)
        return self.in_plan_order[index] if index is not None and known else NO_READER
