"""The plan: one frozen JSON value, sealed by its hash. Approvals sign the hash; drift voids it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


def canonical(body: Mapping[str, Any]) -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8, no NaN. Equal values give equal bytes."""
    return json.dumps(
        body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def seal(body: Mapping[str, Any]) -> str:
    """sha256 of the canonical JSON, as 64 hex digits."""
    return hashlib.sha256(canonical(body)).hexdigest()


@dataclass(frozen=True)
class Drift:
    """One precondition that no longer holds."""

    what: str  # checkpoint | code | settings | sink | update
    planned: str
    now: str
    says: str
    warning: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {"what": self.what, "planned": self.planned, "now": self.now, "says": self.says}
