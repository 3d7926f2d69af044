"""One row of the table of findings."""

from dataclasses import dataclass

from recovery.checkpoints.report import Outcome, Severity

B, W, I = Severity.BLOCKER, Severity.WARNING, Severity.INFO  # noqa: E741


@dataclass(frozen=True)
class FindingKind:
    """`says`, `spark` and `do` may hold {words} that a finding fills in.

    `outcome` is what the next run with the same code comes to, where it is neither of the usual two: a blocker
    makes it fail, else it goes on. docs/damage-table.md shows that Spark agrees. `of_program`: what to do of a plain
    program's checkpoint, where no plan of one does what `do` says; "": the same.
    """

    code: str
    severity: Severity
    says: str
    spark: str
    do: str
    seed: bool = False
    outcome: Outcome | None = None
    of_program: str = ""

    @property
    def predicts(self) -> Outcome:
        return self.outcome or (Outcome.FAILS if self.severity is B else Outcome.GOES_ON)
