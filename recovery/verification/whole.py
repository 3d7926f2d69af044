"""The criteria on the rest of the table: the rows of before, and keys that are there more than once. Pure."""

from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.criterion_values import (
    NO_REPEATS,
    AcceptedRepeats,
    ExpectedKeys,
    ExpectedRowsBefore,
    MeasuredKeys,
    MeasuredRowsBefore,
)
from recovery.spark.api import Measure
from recovery.strategies.common import plural
from recovery.verification.checks import names_of, unknown, usable
from recovery.verification.evidence import Evidence, OldFiles
from recovery.verification.finding import CriterionFinding, key_of


def rows_of_before_untouched(expected: ExpectedRowsBefore, evidence: Evidence) -> CriterionFinding:
    """The data files with the rows of before: by the table's log and their marks, or by the commits of a Delta table.

    Of a Delta table also by its rows: what it had and has no more.
    """
    old, measure = evidence.old_files, evidence.measure
    if old is None or old.problem:
        return unknown(old.problem if old else "The earlier data files were not looked at.")
    rows = measure.old_rows if measure else None
    measured = MeasuredRowsBefore(
        rows=rows, files=old.files, touched=len(old.touched), rewritten=old.rewritten
    )
    if old.touched:
        which = f"{plural(len(old.touched), 'earlier data file')}: {names_of(old.touched)}"
        return CriterionFinding(
            measured, False, f"Removed, changed or no longer named by the table's log: {which}."
        )
    if measure is not None and measure.vanished:
        says = f"{plural(measure.vanished, 'row')} that the table had before the rerun are no longer in it."
        return CriterionFinding(codec.change(measured, vanished=measure.vanished), False, says)
    if measure is not None and measure.misread:
        says = (
            "New data files have other types than the earlier ones, or lack a part of a column, so no one schema reads "
            f"both: {names_of(measure.misread)}."
        )
        return CriterionFinding(codec.change(measured, misread=measure.misread), False, says)
    if rows is not None and expected.rows is not None and rows != expected.rows:
        says = f"The plan counted {plural(expected.rows, 'earlier row')}, and there are {rows:,}."
        return CriterionFinding(measured, False, says)
    if measure is not None and measure.lacking:
        says = (
            f"New data files lack columns of the earlier ones: {names_of(measure.lacking)}. Spark takes a table's "
            "schema from one of its files, so a reader may get them for no row; with mergeSchema it gets them."
        )
        return CriterionFinding(measured, None, says)
    shown, listed = (measure.table_rows, measure.listed_rows) if measure else (None, None)
    if shown is not None and listed is not None and shown < listed:
        hides = f"But the table shows {plural(shown, 'row')} of {listed:,} in its files: rows of before may be hidden."
        return CriterionFinding(measured, None, f"{_stand(old)} {hides}")
    if rows is None:
        return CriterionFinding(measured, None, f"{_stand(old)} Their rows could not be counted.")
    return CriterionFinding(measured, True, f"{plural(rows, 'row')}. {_stand(old)}")


def _stand(old: OldFiles) -> str:
    if old.versions is None:
        of = (
            f"Each of the {plural(old.files or 0, 'earlier data file')}"
            if old.files != 1
            else "The earlier data file"
        )
        return f"{of} is named by the table's log and kept its size and time."
    before, after = old.versions
    moved = (
        f", {plural(old.rewritten, 'data file')} rewritten without a change of rows" if old.rewritten else ""
    )
    return f"No commit after version {before}, up to {after}, removed a row of theirs{moved}."


def no_key_twice(expected: ExpectedKeys, evidence: Evidence) -> CriterionFinding:
    """New rows whose key the table has more than once, rows of before included, beside those that the plan accepts."""
    measure, problem = usable(evidence)
    if measure is None or measure.new_repeats is None or measure.keys_twice is None:
        return unknown(problem or "Earlier rows were not searched for the keys of the new rows.")
    key = [k.lower() for k in expected.key]
    if key != [k.lower() for k in measure.key]:
        return unknown(f"The plan identifies rows by {', '.join(key)}; measured was {key_of(measure)}.")
    accepted = expected.accepted or NO_REPEATS
    measured = MeasuredKeys(
        rows=measure.new_repeats,
        keys=measure.keys_twice,
        accepted=accepted.rows,
        table_keys=measure.table_keys,
        key=measure.key,
    )
    within = _within(measure.new_repeats, accepted)
    if within is False:
        says = f"{_repeated(measure)} The plan accepts {_accepted(accepted)}."
        return CriterionFinding(measured, False, says)
    if not measure.new_repeats:
        rows = plural(measure.new_rows or 0, "new row")
        keys = measure.table_keys
        in_all = "" if keys is None else f" {plural(keys, 'different key')} in all,"
        return CriterionFinding(
            measured, True, f"By {key_of(measure)}: {rows},{in_all} none of a new row twice."
        )
    says = f"{_repeated(measure)} As accepted in the plan: {_accepted(accepted)}."
    return CriterionFinding(
        measured, within, says if within else f"{says} Whether they are too many is not known."
    )


def _within(rows: int, accepted: AcceptedRepeats) -> bool | None:
    """Whether so many are accepted; None where the plan accepts a number that was not known or has no upper bound."""
    most, bound = accepted.rows, accepted.bound
    if most is None or bound in (Bound.ESTIMATE, Bound.UNKNOWN, Bound.AT_LEAST):
        return None
    return rows == most if bound is Bound.EXACT else rows <= most


def _repeated(measure: Measure) -> str:
    rows, keys = measure.new_repeats or 0, measure.keys_twice or 0
    return (
        f"{plural(rows, 'row')} repeat a key ({key_of(measure)}): {plural(keys, 'key')} of new rows "
        f"{'is' if keys == 1 else 'are'} in the table more than once."
    )


def _accepted(accepted: AcceptedRepeats) -> str:
    if accepted.rows is None:
        return "repeats whose number was not known"
    return f"{accepted.bound.before_number}{plural(accepted.rows, 'row')}"
