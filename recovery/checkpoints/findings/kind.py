"""One row of the table of findings."""

from dataclasses import dataclass

from recovery.checkpoints.report import Severity

B, W, I = Severity.BLOCKER, Severity.WARNING, Severity.INFO  # noqa: E741


@dataclass(frozen=True)
class Kind:
    """`says`, `spark` and `do` may hold {words} that a finding fills in."""

    code: str
    severity: Severity
    says: str
    spark: str
    do: str
    seed: bool = False
