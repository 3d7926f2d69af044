"""Every judgement that `inspect` can make, as one table: code, severity, what is so, what Spark does, what to do.

Codes are stable: plans, audit entries and docs/findings.md name them. What Spark does was seen on Spark 4.2.
`seed` says whether a seeded reset from the last committed batch still gives the right rows.
"""

from recovery.checkpoints.findings import location, logs, sinks, state
from recovery.checkpoints.findings.kind import FindingKind
from recovery.checkpoints.report import Finding

TABLE: tuple[FindingKind, ...] = (*location.TABLE, *logs.TABLE, *state.TABLE, *sinks.TABLE)
BY_CODE = {kind.code: kind for kind in TABLE}


def finding(code: str, file: str | None = None, **words: object) -> Finding:
    """The finding of this code with its words filled in, `file` too. Raises KeyError for a word left out (a bug)."""
    kind = BY_CODE[code]
    words["file"] = file
    return Finding(
        code=code,
        severity=kind.severity,
        says=kind.says.format(**words),
        do=kind.do.format(**words),
        file=file,
        spark=kind.spark.format(**words),
        outcome=kind.predicts,
    )


def advise_program(code: str, do: str) -> str:
    """What to do of a finding of this code, which says to `do` it, where the checkpoint is a plain program's."""
    return BY_CODE[code].of_program or do if code in BY_CODE else do
