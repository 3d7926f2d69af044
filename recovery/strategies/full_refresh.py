"""full-refresh: empty the table and read everything that can still be read, with the new code."""

from recovery.checkpoints.report import Finding, Severity
from recovery.strategies import common
from recovery.strategies.base import Amount, Facts, Forecast, Option, StepSpec


def judge(facts: Facts) -> Option:
    """The option, blocked or not, with what comes back and what can no longer be read."""
    counts = facts.counts
    return Option(
        strategy="full-refresh",
        title="full-refresh",
        summary="Empty the table, read everything again",
        blocked=blocked(facts),
        forecast=Forecast(
            lost=_lost(facts),
            doubled=_doubled(facts),
            reread=common.amount(
                counts.processed,
                common.files_of(facts, "processed"),
                "Every file that was committed and can still be read.",
            ),
            new_rows=counts.everything,
            table_after=counts.everything,
            state=f"Dropped: {common.state_keys(facts)}"
            if facts.checkpoint.state_operators
            else "None to drop",
            seconds=None if facts.usual_update_seconds is None else facts.usual_update_seconds * 3,
        ),
        findings=_findings(facts),
        steps=common.steps(
            facts.new_code.files != facts.code.files,
            StepSpec(
                "rerun",
                f"Empty {facts.dataset} and read everything again (full_refresh_selection).",
                {"full_refresh": [facts.dataset]},
            ),
        ),
        criteria=common.criteria(
            facts,
            {
                "FIRST_BATCH_AT_POSITION": {"batch": 0, "offsets": [None for _ in facts.checkpoint.sources]},
                "EACH_FILE_ONCE": {
                    "scope": "new",
                    "files": sum(len(s.processed) + len(s.waiting) for s in facts.sources),
                },
                "TABLE_GREW_BY_NEW_BATCHES": {"before": 0},
                "EVERY_ROW_ONCE": {"scope": "all", "key": list(facts.new_code.key)},
                **common.counted(counts.everything),
                "NOTHING_ELSE_CHANGED": {},
                "FURTHER_UPDATE_ADDS_NOTHING": {},
            },
        ),
        rollback="None: the table is emptied first. What cannot be read again is gone.",
        code_live="Yes",
        table_meanwhile="Empty until the update ends",
        positions=common.positions(facts, after="start"),
    )


def blocked(facts: Facts) -> str | None:
    """Why full-refresh cannot run here; None when it can."""
    if reason := common.any_block(facts):
        return reason
    if facts.new_code.operators is None:
        return f"The code could not be analysed: {facts.new_code.problem}"
    return None


def _difference(facts: Facts) -> int | None:
    """Rows the new code yields over the committed files, minus rows in the table now."""
    if facts.counts.processed is None or facts.counts.table is None:
        return None
    return facts.counts.processed - facts.counts.table


def _gone(facts: Facts) -> tuple[str, ...]:
    return tuple(path for source in facts.sources for path in source.gone)


def _lost(facts: Facts) -> Amount:
    gone, difference = _gone(facts), _difference(facts)
    if gone:
        rows = None if difference is None else max(0, -difference)
        return Amount(
            rows=rows,
            files=len(gone),
            start=common.name_of(gone[0]),
            end=common.name_of(gone[-1]),
            exact=False,
            why=f"{common.plural(len(gone), 'committed file')} can no longer be read; their rows leave the table.",
        )
    if difference is not None and difference < 0:
        return Amount(-difference, 0, None, None, True, "The new code yields fewer rows over the same files.")
    total = sum(len(s.processed) + len(s.waiting) for s in facts.sources)
    return common.nothing(f"All {common.plural(total, 'file')} can still be read.")


def _doubled(facts: Facts) -> Amount:
    difference = _difference(facts)
    if _gone(facts) or difference is None:
        return Amount(
            None, 0, None, None, False, "Cannot be told exactly: not every committed file can be read."
        )
    if difference > 0:
        return Amount(
            difference,
            0,
            None,
            None,
            True,
            "Rows that the old code had left out come back"
            + (
                ": repeats that dropDuplicates had removed."
                if any(o.name == "dedupe" for o in facts.checkpoint.state_operators)
                else "."
            ),
        )
    return common.nothing("The table is emptied first.")


def _findings(facts: Facts) -> tuple[Finding, ...]:
    found = []
    if gone := _gone(facts):
        found.append(
            Finding(
                "INPUT_GONE",
                Severity.WARNING,
                f"{common.plural(len(gone), 'input file')} of the table's rows no longer exist.",
                "Back the table up first, or take continue, which keeps those rows.",
                file=gone[0],
            )
        )
    found.append(
        Finding(
            "TABLE_EMPTIED",
            Severity.WARNING,
            f"{facts.dataset} is emptied at the start and fills again during the update; readers see that.",
            "Tell its readers, or take continue.",
        )
    )
    return tuple(found)
