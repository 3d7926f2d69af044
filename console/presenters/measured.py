"""What each criterion measured, in words: a line beside what it expected. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from console.presenters import below
from console.presenters.reviewing import plain_value
from console.presenters.words import format_count, format_number
from recovery.contracts import codec
from recovery.contracts.measured import FilledBack, RefreshedDataset
from recovery.strategies.backfill import FILLED
from recovery.strategies.downstream import AGREES
from recovery.strategies.top_up import CHECKPOINT_UNTOUCHED, HAS_EVERY_ROW
from recovery.verification import criteria


def say_measured(code: str, value: Any) -> str:
    """The words of a measured value; one of a criterion without words here, or of another version's shape, as it is."""
    if code == AGREES and isinstance(value, list):
        return below.measured_rows(codec.read(RefreshedDataset, one) for one in value)
    words = WORDS.get(code)
    if words is None or not isinstance(value, Mapping):
        return plain_value(value)
    try:
        return words(value)
    except (KeyError, ValueError):  # measured by another version
        return plain_value(value)


def _files_text(measured: Mapping[str, Any]) -> str:
    # a topic and a Delta table have positions in place of files
    reached = f"; reached {plain_value(measured['positions'])}" if measured.get("positions") else ""
    if not (measured["files"] or measured["missing"] or measured["more_than_once"]):
        return reached.removeprefix("; ") or "no files: its batches follow each other"
    missing, twice = format_number(measured["missing"]), format_number(measured["more_than_once"])
    return f"{format_count(measured['files'], 'file')}, {missing} missing, {twice} twice{reached}"


def _rows_of_before(measured: Mapping[str, Any]) -> str:
    files = "" if measured["files"] is None else f" in {format_count(measured['files'], 'file')}"
    changed = (
        f", {format_count(measured['touched'], 'file')} changed"
        if measured["files"] is not None or measured["touched"]
        else ""
    )
    vanished = f", {format_count(measured['vanished'], 'row')} gone" if measured.get("vanished") else ""
    return f"{format_count(measured['rows'], 'row')}{files}{changed}{vanished}"


def _growth_text(measured: Mapping[str, Any]) -> str:
    if "filled" in measured:
        after, batches = format_count(measured["after"], "row"), format_number(measured["new_batches"])
        return f"{after}, {batches} by the new batches, {format_number(measured['filled'])} filled back"
    vanished = f", {format_count(measured['vanished'], 'row')} gone" if measured.get("vanished") else ""
    before, after = format_number(measured["before"]), format_count(measured["after"], "row")
    return f"{before} → {after}, {format_number(measured['new_batches'])} by the new batches{vanished}"


def _every_row(measured: Mapping[str, Any]) -> str:
    text = f"{format_number(measured['found'])} of {format_count(measured['expected'], 'row')}"
    repeats = (
        f", {format_number(measured['repeats_added'])} repeat a key" if measured["repeats_added"] else ""
    )
    left = f"; {', '.join(measured['table_only'])} not compared" if measured.get("table_only") else ""
    missing, extra = format_number(measured["missing"]), format_number(measured["extra"])
    return f"{text}, {missing} missing, {extra} too many{repeats}{left}"


def _filled_text(filled: FilledBack) -> str:
    missing, extra = format_number(filled.missing), format_number(filled.extra)
    return (
        f"{format_number(filled.filled)} of {format_count(filled.due, 'row')} filled back, {missing} missing, "
        f"{extra} too many; {format_number(filled.backup_rows)} in the backup"
    )


def _keys_text(measured: Mapping[str, Any]) -> str:
    among = (
        ""
        if measured["table_keys"] is None
        else f"; {format_count(measured['table_keys'], 'key')} in the table"
    )
    return f"{format_count(measured['rows'], 'row')} with a key that is there twice{among}"


def _whole_table_text(measured: Mapping[str, Any]) -> str:
    beyond = f"; {format_count(measured['beyond'], 'row')} of no input" if measured["beyond"] else ""
    missing, extra = format_number(measured["missing"]), format_number(measured["extra"])
    return (
        f"{format_count(measured['rows'], 'row')} of the input, {missing} missing, {extra} too many{beyond}"
    )


def _checkpoint_text(measured: Mapping[str, Any]) -> str:
    last = measured["last_committed"]
    return "no batch committed" if last is None else f"batch {format_number(last)} is the last one committed"


def _further_text(measured: Mapping[str, Any]) -> str:
    if "state" in measured:
        return f"it ended as {measured['state']}"
    return (
        f"{format_number(measured['rows_before'])} → {format_count(measured['rows_after'], 'row')}, "
        f"{format_count(measured['data_files'], 'data file')} changed"
    )


def _others_text(measured: Mapping[str, Any]) -> str:
    ran = (
        f"; not known of {format_number(len(measured['ran']))} that the updates write too"
        if measured.get("ran")
        else ""
    )
    return f"{format_number(measured['watched'])} watched, {plain_value(measured['changed'])} changed{ran}"


WORDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    criteria.EACH_FILE_ONCE: _files_text,
    criteria.ROWS_OF_BEFORE_UNTOUCHED: _rows_of_before,
    criteria.TABLE_GREW_BY_NEW_BATCHES: _growth_text,
    criteria.EVERY_ROW_ONCE: _every_row,
    criteria.NO_KEY_TWICE: _keys_text,
    FILLED: lambda measured: _filled_text(codec.read(FilledBack, measured)),
    HAS_EVERY_ROW: _whole_table_text,
    CHECKPOINT_UNTOUCHED: _checkpoint_text,
    criteria.FURTHER_UPDATE_ADDS_NOTHING: _further_text,
    criteria.NOTHING_ELSE_CHANGED: _others_text,
}
