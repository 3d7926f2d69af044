"""How the pipeline's code reads a source: what Spark answers of it, what is kept of it, what each look at it asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from recovery.contracts.value import StoredJson, Text

Schema = Annotated[str, Field(max_length=8_000_000)]
"""A schema as JSON or DDL. An option may hold one, as Avro's do."""
ReaderOptions = Mapping[Text, Schema]
"""Options by the names that the code gives them, which may hold passwords: for asking the source, on no page and in no
plan."""


# A dataclass, as all that Spark answers with: what a newer release adds to an answer or a row is left out.
@dataclass(frozen=True)
class SourceReader:
    """One streaming reader of the code."""

    format: Text = ""
    """Its data source. Of a table by name the table's provider, `table` where the catalog knows none; "": Spark's
    default."""
    path: Text | None = None
    """What the code reads: a path, or the name of a table; None: neither, as of Kafka."""
    options: ReaderOptions = field(default_factory=dict, repr=False)
    schema: Schema = ""
    """The schema that the code gives it; "": none."""
    location: Text | None = None
    """The path; of a table by name where the catalog says it is; None: not known, or it has none, as Kafka."""
    table: Text | None = None
    """The name of a table that is read by name; None: it is read by path, or an older release kept
    this."""
    table_id: Text | None = None
    """The id in the log of a Delta table, by which a checkpoint knows it; None: not looked up."""
    name: Text | None = None
    """What the code names the source; None: nothing, or not known."""

    @staticmethod
    def from_stored(stored: StoredJson) -> "SourceReader":
        """A stored reader, of this release or an older one. Raises ValueError for anything else."""
        known = {name: value for name, value in stored.items() if value is not None}
        try:
            return STORED.validate_python(known)
        except ValidationError:  # its text shows options
            raise ValueError("The stored reader has another shape.") from None

    @property
    def place(self) -> str:
        """Where the files are; "" where that is not known. The path of a table by name is its name, which is no
        place."""
        by_name = bool(self.table) or self.format == "table"
        return self.location or ("" if by_name else self.path) or ""

    @property
    def lower_options(self) -> dict[str, str]:
        """The options by their names in lower case: Spark compares them so."""
        return {name.lower(): value for name, value in self.options.items()}

    @property
    def is_shown(self) -> bool:
        """Whether the code shows of what kind the source is, or where it reads."""
        return bool(self.format or self.path or self.location)


STORED: Final = TypeAdapter(SourceReader)
"""Reads what is stored; made once, since that takes longer than to read by it."""
NO_READER: Final = SourceReader()
"""Of a source that the code does not show."""
