"""What each criterion measured, in words: a line beside what it expected. Pure."""

from console.presenters import below
from console.presenters.reviewing import plain_value
from console.presenters.words import format_count, format_number
from recovery.contracts.criterion_values import (
    Measured,
    MeasuredCheckpoint,
    MeasuredDatasets,
    MeasuredDeleted,
    MeasuredEnd,
    MeasuredFiles,
    MeasuredFill,
    MeasuredFilledGrowth,
    MeasuredFurther,
    MeasuredGrowth,
    MeasuredInput,
    MeasuredKeys,
    MeasuredOthers,
    MeasuredRowsBefore,
    MeasuredRowsOnce,
)


def say_measured(value: Measured) -> str:
    """The words of a measured value; one of a criterion without words here, or of another version's shape, as it is."""
    match value:
        case MeasuredFiles():
            return _files_text(value)
        case MeasuredRowsBefore():
            return _rows_of_before(value)
        case MeasuredGrowth() | MeasuredFilledGrowth():
            return _growth_text(value)
        case MeasuredRowsOnce():
            return _every_row(value)
        case MeasuredKeys():
            return _keys_text(value)
        case MeasuredEnd():
            return f"it ended as {value.state}"
        case MeasuredFurther():
            return _further_text(value)
        case MeasuredOthers():
            return _others_text(value)
    return _say_written(value)


def _say_written(value: Measured) -> str:
    """Of what a recovery writes beside the flow's own updates, and below its table."""
    match value:
        case MeasuredDatasets():
            return below.measured_rows(value.root)
        case MeasuredFill():
            return _filled_text(value)
        case MeasuredInput():
            return _whole_table_text(value)
        case MeasuredDeleted():
            return _deleted_text(value)
        case MeasuredCheckpoint():
            return _checkpoint_text(value)
    return plain_value(value)


def _files_text(measured: MeasuredFiles) -> str:
    # a topic and a Delta table have positions in place of files
    reached = f"; reached {plain_value(measured.positions)}" if measured.positions else ""
    if not (measured.files or measured.missing or measured.more_than_once):
        return reached.removeprefix("; ") or "no files: its batches follow each other"
    missing, twice = format_number(measured.missing), format_number(measured.more_than_once)
    return f"{format_count(measured.files, 'file')}, {missing} missing, {twice} twice{reached}"


def _rows_of_before(measured: MeasuredRowsBefore) -> str:
    files = "" if measured.files is None else f" in {format_count(measured.files, 'file')}"
    changed = (
        f", {format_count(measured.touched, 'file')} changed"
        if measured.files is not None or measured.touched
        else ""
    )
    return f"{format_count(measured.rows, 'row')}{files}{changed}{_vanished_text(measured.vanished)}"


def _vanished_text(rows: int | None) -> str:
    return f", {format_count(rows, 'row')} gone" if rows else ""


def _growth_text(measured: MeasuredGrowth | MeasuredFilledGrowth) -> str:
    after, batches = format_count(measured.after, "row"), format_number(measured.new_batches)
    if isinstance(measured, MeasuredFilledGrowth):
        return f"{after}, {batches} by the new batches, {format_number(measured.filled)} filled back"
    gone = _vanished_text(measured.vanished)
    return f"{format_number(measured.before)} → {after}, {batches} by the new batches{gone}"


def _every_row(measured: MeasuredRowsOnce) -> str:
    text = f"{format_number(measured.found)} of {format_count(measured.expected, 'row')}"
    repeats = f", {format_number(measured.repeats_added)} repeat a key" if measured.repeats_added else ""
    which = f" in {', '.join(measured.differing)}" if measured.differing else ""
    other = (
        f", {format_number(measured.other_values)} with other values{which}" if measured.other_values else ""
    )
    alone = (*measured.table_only, *measured.left_out, *measured.absent)
    if measured.values_compared is False and not measured.absent:
        alone = (*alone, "other columns")
    left = f"; {', '.join(alone)} not compared" if alone else ""
    missing, extra = format_number(measured.missing), format_number(measured.extra)
    return f"{text}, {missing} missing, {extra} too many{other}{repeats}{left}"


def _filled_text(filled: MeasuredFill) -> str:
    missing, extra = format_number(filled.missing), format_number(filled.extra)
    return (
        f"{format_number(filled.filled)} of {format_count(filled.due, 'row')} filled back, {missing} missing, "
        f"{extra} too many; {format_number(filled.backup_rows)} in the backup"
    )


def _keys_text(measured: MeasuredKeys) -> str:
    keys = measured.table_keys
    among = "" if keys is None else f"; {format_count(keys, 'key')} in the table"
    return f"{format_count(measured.rows, 'row')} with a key that is there twice{among}"


def _whole_table_text(measured: MeasuredInput) -> str:
    beyond = f"; {format_count(measured.beyond, 'row')} of no input" if measured.beyond else ""
    missing, extra = format_number(measured.missing), format_number(measured.extra)
    return f"{format_count(measured.rows, 'row')} of the input, {missing} missing, {extra} too many{beyond}"


def _deleted_text(measured: MeasuredDeleted) -> str:
    deleted, added = format_count(measured.deleted, "row"), format_number(measured.added)
    return f"{deleted} deleted, {format_number(measured.vanished)} of which none is left; {added} came"


def _checkpoint_text(measured: MeasuredCheckpoint) -> str:
    last = measured.last_committed
    return "no batch committed" if last is None else f"batch {format_number(last)} is the last one committed"


def _further_text(measured: MeasuredFurther) -> str:
    return (
        f"{format_number(measured.rows_before)} → {format_count(measured.rows_after, 'row')}, "
        f"{format_count(measured.data_files, 'data file')} changed"
    )


def _others_text(measured: MeasuredOthers) -> str:
    ran = (
        f"; not known of {format_number(len(measured.ran))} that the updates write too"
        if measured.ran
        else ""
    )
    return f"{format_number(measured.watched)} watched, {plain_value(list(measured.changed))} changed{ran}"
