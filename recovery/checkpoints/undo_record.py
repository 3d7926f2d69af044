"""The undo record of a new checkpoint: made from which, by which attempt. Written before anything else."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from recovery.checkpoints.storage import Store
from recovery.errors import Refused, WrongUse

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_RECORD_BYTES = 1 << 16

Guard = Callable[[], None]  # raises when the caller has lost the right to act


def safe_label(recovery: str) -> str:
    if not LABEL.fullmatch(recovery) or recovery.endswith("-undone"):
        raise WrongUse(f"{recovery!r} cannot be part of a file name: use letters, digits, dot, dash.")
    return recovery


def record_name(label: str) -> str:
    return f".reprise-{label}.undo.json"


def write_record(flow: Store, label: str, record: Mapping[str, Any], guard: Guard) -> None:
    """Aside and renamed, so that a record is whole or not there."""
    name = record_name(label)
    flow.remove(f"{name}.new")
    flow.write(f"{name}.new", json.dumps(record, indent=1).encode())
    guard()
    flow.replace(f"{name}.new", name)
    flow.sync()


def read_record(flow: Store, label: str) -> dict[str, Any]:
    name = record_name(label)
    try:
        record = json.loads(flow.read(name, MAX_RECORD_BYTES))
        if (
            isinstance(record, dict)
            and isinstance(record["batch"], int)
            and (isinstance(record["to_version"], int) or isinstance(record.get("name"), str))
        ):
            return record
    except FileNotFoundError as error:
        raise Refused(f"There is no undo record {name}; nothing was changed.") from error
    except (ValueError, KeyError):
        pass  # said below: the record is not ours
    raise Refused(f"The undo record {name} cannot be read; look at the flow's directory by hand.")
