"""Contracts as JSON and back: what is written, what is sealed, and how values of older releases are read."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from recovery.contracts.plan import PlanBody
from recovery.contracts.value import Value

V = TypeVar("V", bound=Value)


def canonical_json(body: Mapping[str, Any]) -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8, no NaN. Equal values give equal bytes."""
    return json.dumps(
        body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def seal(body: Mapping[str, Any]) -> str:
    """sha256 of the canonical JSON, as 64 hex digits."""
    return hashlib.sha256(canonical_json(body)).hexdigest()


def read(kind: type[V], stored: Mapping[str, Any]) -> V:
    """The value that was stored, of this release or an older one. Raises ValueError for anything else."""
    return kind.model_validate(dict(stored))


def read_plan(body: Mapping[str, Any]) -> PlanBody:
    """The contents of a sealed plan. Of one that was sealed before plans had a schema number, keys that are not known
    any more are left out. Raises ValueError for anything else."""
    return PlanBody.model_validate(dict(body), extra="forbid" if "schema" in body else "ignore")


def change(value: V, **fields: object) -> V:
    """The value with other fields, each of them checked. Raises ValueError."""
    given = {name: getattr(value, name) for name in value.model_fields_set}
    return type(value).model_validate({**given, **fields})


def to_json(value: Value) -> dict[str, Any]:
    """Plain JSON with every field, as a value is stored, sealed and sent."""
    return value.model_dump(mode="json")


def to_set_json(value: Value) -> dict[str, Any]:
    """Plain JSON of the fields that were given to a value, each of them whole: for what is laid over a stored one."""
    return {name: field for name, field in to_json(value).items() if name in value.model_fields_set}


def to_read_json(value: Value) -> dict[str, Any]:
    """Plain JSON of a value that was `read`, with the keys that it was read with and no others: a seal of an older
    release keeps its bytes."""
    return value.model_dump(mode="json", exclude_unset=True)
