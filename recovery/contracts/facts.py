"""What was gathered for a recovery: how far that is, what was counted, and every strategy judged by it. Stored as
`recovery.facts`."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import model_validator

from recovery.contracts.choices import WorkerAnswer
from recovery.contracts.names import Strategy
from recovery.contracts.option import Option
from recovery.contracts.plan import SinkPlace, WaitingFile
from recovery.contracts.positions import PositionChange
from recovery.contracts.value import Flag, Number

_UNREAD: Final = frozenset({"not_applicable", "recommended", "state_keys", "checkpoint"})
"""What releases of before stored too, and no reader used."""


class GatheredFacts(WorkerAnswer):
    """The newest facts. Those of an earlier gathering stay while a new one runs, and when it fails."""

    options: tuple[Option, ...] | None = None
    """Every strategy, in the order in which people weigh them; None: none was judged yet."""
    table_rows: Number | None = None
    """Rows of the table; None: not known, or there is no table."""
    sink: SinkPlace = SinkPlace()
    """Where the flow writes."""
    waiting_rows: Number | None = None
    """Rows that the code makes of what waits to be read; None: not counted."""
    waiting_files: tuple[WaitingFile, ...] = ()
    """Input files that wait to be read."""
    processed_files: Number = 0
    """How many input files were read."""
    key: tuple[str, ...] = ()
    """The columns by which the code's rows are identified; (): all of them."""
    key_from: str = ""
    """Where the key comes from, for people."""
    whole_rows: Flag = False
    """Whether rows are compared in every column, and counted by `key`."""
    code_operators: tuple[str, ...] | None = None
    """Spark's names of the stateful operators of the code; None: not known."""

    @property
    def is_ready(self) -> bool:
        """Whether the newest gathering has come to its end."""
        return self.status == "ready"

    @property
    def is_working(self) -> bool:
        """Whether a gathering runs."""
        return self.status == "working"

    @property
    def judged(self) -> tuple[Option, ...]:
        """The options; () before any were judged."""
        return self.options or ()

    @property
    def positions(self) -> tuple[PositionChange, ...]:
        """Each source before and after, as the first option takes it; () before any were judged."""
        return next((option.positions for option in self.judged), ())

    def option_of(self, strategy: Strategy | str | None) -> Option | None:
        """This strategy as it was judged; None: it was not."""
        return next((option for option in self.judged if option.strategy == strategy), None)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if name not in _UNREAD}
