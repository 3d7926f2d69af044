"""What every contract is: a frozen value of documented fields that refuses any other key."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, Strict

Flag = Annotated[bool, Strict()]
"""True or false, never 0 or 1: what is stored keeps its type, so that a seal keeps its bytes."""

Number = Annotated[int, Strict()]
"""A whole number, never true, false, or text."""

Duration = Annotated[int, Strict()] | Annotated[float, Strict()]
"""Seconds. A whole number stays one, so that a seal keeps its bytes."""


Moment = Annotated[datetime, PlainSerializer(datetime.isoformat, when_used="json")]
"""A moment with its zone, as JSON in ISO form with every digit that it is stored with."""

Text = Annotated[str, Field(max_length=100_000)]
"""A name, a reason, an option: what is shown or compared, never a file."""

StoredJson = Mapping[str, Any]
"""JSON of a row, as it is stored: its keys are those of a value, of this release or an older one."""

DataRow = Mapping[str, object]
"""One row of people's data, or a part of one: the names are columns of theirs."""


class Value(BaseModel):
    """Frozen; an unknown key is refused. `Field(validation_alias=…, serialization_alias=…)` names a key that Python
    cannot."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        ser_json_inf_nan="constants",
    )
