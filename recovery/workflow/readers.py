"""Where the code of now reads from, with the options of its readers: they may be secret."""

from collections.abc import Callable
from functools import cached_property

from recovery.contracts.readers import NO_READER, SourceReader
from recovery.spark.api import study
from recovery.workflow.flow_snapshot import NO_COUNTS, FlowSnapshot, request_for


class Readers:
    """The readers of a snapshot's code. Spark needs seconds to tell them: it is asked when one is wanted, and once.

    `snapshot` is looked at no earlier either. Every question raises what `flow_snapshot.read_flow_snapshot` and `study`
    raise.
    """

    def __init__(self, snapshot: Callable[[], FlowSnapshot]) -> None:
        self._snapshot = snapshot
        self._told: tuple[SourceReader, ...] = ()

    def note(self, told: tuple[SourceReader, ...]) -> None:
        """What another answer of Spark tells of the readers of the same code: it need not be asked again."""
        self._told = told

    @cached_property
    def all(self) -> tuple[SourceReader, ...]:
        """Every reader in plan order; none where the code could not be analysed."""
        snapshot = self._snapshot()
        return self._told or study(request_for(snapshot, snapshot.code, NO_COUNTS, ())).sources

    def of(self, number: str) -> SourceReader:
        """The reader of a source, by its index as text; NO_READER where there is none."""
        known = number.isdigit() and int(number) < len(self.all)
        return self.all[int(number)] if known else NO_READER
