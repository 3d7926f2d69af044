"""What a plan relied on and no longer holds: drift voids the plan and its approvals."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Drift:
    """One precondition that no longer holds."""

    what: str  # checkpoint | code | joint | plan | settings | sink | update
    planned: str
    now: str
    says: str
    warning: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {"what": self.what, "planned": self.planned, "now": self.now, "says": self.says}
