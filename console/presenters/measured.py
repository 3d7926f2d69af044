"""What each criterion measured, in words: a line beside what it expected. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from console.presenters import below
from console.presenters.reviewing import plain_value
from console.presenters.words import format_count, format_number
from recovery.strategies.downstream import AGREES
from recovery.verification import criteria


def say_measured(code: str, value: Any) -> str:
    """The words of a measured value; one of a criterion without words here, or of another version's shape, as it is."""
    if code == AGREES and isinstance(value, list):
        return below.measured_rows(value)
    words = WORDS.get(code)
    if words is None or not isinstance(value, Mapping):
        return plain_value(value)
    try:
        return words(value)
    except KeyError:  # measured by another version
        return plain_value(value)


def _files_text(of: Mapping[str, Any]) -> str:
    # a topic and a Delta table have positions in place of files
    reached = f"; reached {plain_value(of['positions'])}" if of.get("positions") else ""
    if not (of["files"] or of["missing"] or of["more_than_once"]):
        return reached.removeprefix("; ") or "no files: its batches follow each other"
    missing, twice = format_number(of["missing"]), format_number(of["more_than_once"])
    return f"{format_count(of['files'], 'file')}, {missing} missing, {twice} twice{reached}"


def _rows_of_before(of: Mapping[str, Any]) -> str:
    files = "" if of["files"] is None else f" in {format_count(of['files'], 'file')}"
    changed = (
        f", {format_count(of['touched'], 'file')} changed" if of["files"] is not None or of["touched"] else ""
    )
    vanished = f", {format_count(of['vanished'], 'row')} gone" if of.get("vanished") else ""
    return f"{format_count(of['rows'], 'row')}{files}{changed}{vanished}"


def _growth_text(of: Mapping[str, Any]) -> str:
    vanished = f", {format_count(of['vanished'], 'row')} gone" if of.get("vanished") else ""
    before, after = format_number(of["before"]), format_count(of["after"], "row")
    return f"{before} → {after}, {format_number(of['new_batches'])} by the new batches{vanished}"


def _every_row(of: Mapping[str, Any]) -> str:
    text = f"{format_number(of['found'])} of {format_count(of['expected'], 'row')}"
    repeats = f", {format_number(of['repeats_added'])} repeat a key" if of["repeats_added"] else ""
    left = f"; {', '.join(of['table_only'])} not compared" if of.get("table_only") else ""
    return f"{text}, {format_number(of['missing'])} missing, {format_number(of['extra'])} too many{repeats}{left}"


def _keys_text(of: Mapping[str, Any]) -> str:
    among = "" if of["table_keys"] is None else f"; {format_count(of['table_keys'], 'key')} in the table"
    return f"{format_count(of['rows'], 'row')} with a key that is there twice{among}"


def _further_text(of: Mapping[str, Any]) -> str:
    if "state" in of:
        return f"it ended as {of['state']}"
    return (
        f"{format_number(of['rows_before'])} → {format_count(of['rows_after'], 'row')}, "
        f"{format_count(of['data_files'], 'data file')} changed"
    )


def _others_text(of: Mapping[str, Any]) -> str:
    ran = (
        f"; not known of {format_number(len(of['ran']))} that the updates write too" if of.get("ran") else ""
    )
    return f"{format_number(of['watched'])} watched, {plain_value(of['changed'])} changed{ran}"


WORDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    criteria.EACH_FILE_ONCE: _files_text,
    criteria.ROWS_OF_BEFORE_UNTOUCHED: _rows_of_before,
    criteria.TABLE_GREW_BY_NEW_BATCHES: _growth_text,
    criteria.EVERY_ROW_ONCE: _every_row,
    criteria.NO_KEY_TWICE: _keys_text,
    criteria.FURTHER_UPDATE_ADDS_NOTHING: _further_text,
    criteria.NOTHING_ELSE_CHANGED: _others_text,
}
