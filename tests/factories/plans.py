"""Contents of plans that are made by no recovery: whole, but for what a test names."""

from collections.abc import Mapping
from typing import Any

from recovery.contracts import codec
from recovery.contracts.plan import SCHEMA, PlanBody

_NO_ROWS = {"rows": 0, "files": 0, "from": None, "to": None, "exact": True, "why": "", "bound": "exact"}
_BODY: Mapping[str, Any] = {
    "schema": SCHEMA,
    "recovery": "R-1",
    "workspace": "dev",
    "environment": "development",
    "pipeline": {"id": "p-0", "name": "customers"},
    "flow": "c.s.flow",
    "dataset": "c.s.t",
    "checkpoint_place": "memory://checkpoint",
    "table_place": "memory://table",
    "sink": {"kind": "files", "declared": "", "place": "memory://table"},
    "other_tables": {},
    "diagnosis": {"condition": None, "title": None, "damaged": None, "severity": None},
    "strategy": "continue",
    "key": [],
    "key_from": "the whole row",
    "whole_rows": False,
    "proof": 1,
    "positions": [],
    "numbering": {"next_batch": 3, "query_id": "new"},
    "state": "drop",
    "code_operators": None,
    "state_held": "none",
    "watermark_ms": None,
    "patch": [],
    "editors": [],
    "forecast": {
        "lost": _NO_ROWS,
        "doubled": _NO_ROWS,
        "reread": _NO_ROWS,
        "new_rows": None,
        "table_after": None,
        "state": "",
        "seconds": None,
        "downstream": [],
    },
    "accepted": {"loss": None, "repeats": None},
    "table_rows": None,
    "preconditions": {
        "checkpoint": {"version": 0, "last_committed": 2, "fingerprint": "91b0" + "0" * 60},
        "code": {},
        "settings": {},
        "sink": {"head": 2, "fingerprint": "02ce" + "0" * 60},
        "active_update": None,
    },
    "waiting_files": [],
    "wishes": {},
    "inputs": [],
    "gathered_at": "2026-11-21T20:36:44+00:00",
    "steps": [],
    "criteria": [],
    "rollback": "",
    "findings": [],
}


def plan_body(**changes: Any) -> dict[str, Any]:
    """The JSON of a plan; of objects in it only the keys that are named are changed."""
    return _merged(_BODY, changes)


def plan_contents(**changes: Any) -> PlanBody:
    """The same as a value."""
    return codec.read_plan(plan_body(**changes))


def planned_input(source: int | str = 0, **changes: Any) -> dict[str, Any]:
    """One of its inputs, by default a file source of which nothing was read."""
    return {"source": source, "kind": "files", "location": "", "start": None, **changes}


def planned_position(offset_json: str | None, source: int | str = 0) -> dict[str, Any]:
    """One of its positions: the source goes on where it is."""
    place = {"label": "", "offset_json": offset_json, "name": None}
    return {"source": source, "location": "", "kind": "files", "before": place, "after": place}


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(base[key], value)
        if isinstance(base.get(key), Mapping) and isinstance(value, Mapping)
        else value
        for key, value in changes.items()
    }
    return {**base, **both}
