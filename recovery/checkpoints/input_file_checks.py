"""Are the input files that a log names still there? Asked only on request, since it lists their directories."""

from collections import Counter
from collections.abc import Iterable
from urllib.parse import unquote

from recovery.checkpoints.findings import finding
from recovery.checkpoints.report import Finding, SourceEntry, SourceProgress
from recovery.checkpoints.storage import Store
from recovery.errors import RepriseError

KEPT_FOLDERS = 64  # listings held at a time: logs name the files of one directory one after the other


def judge_inputs(sources: Iterable[SourceProgress]) -> list[Finding]:
    """Findings for planned files that are gone (a restart fails) and for read ones (a full refresh lacks them)."""
    findings = []
    for source in sources:
        if source.kind != "files" or source.twin_of is not None:
            continue
        for code, entries in (("INPUT_PLANNED_GONE", source.planned), ("INPUT_READ_GONE", source.committed)):
            gone, first, why = _count_missing_files(entries)
            name = source.name or source.index
            if why:
                findings.append(finding("INPUT_UNCHECKED", source.folder, source=name, why=why))
                break
            if gone:
                findings.append(finding(code, source.folder, source=name, count=gone, first=first))
    return findings


def _count_missing_files(entries: Iterable[SourceEntry]) -> tuple[int, str, str | None]:
    """(number of files that are not there, the first of them, why that is not known)."""
    listed: dict[str, set[str]] = {}
    count: Counter[str] = Counter()
    first = ""
    for entry in entries:
        folder, _, name = unquote(entry.path).rpartition("/")
        if folder not in listed:
            if len(listed) >= KEPT_FOLDERS:
                listed.clear()
            try:
                listed[folder] = _list_file_names(folder)
            except (OSError, RepriseError) as error:
                return 0, "", f"{folder} cannot be listed ({error})"
        if name not in listed[folder]:
            count["gone"] += 1
            first = first or entry.path
    return count["gone"], first, None


def _list_file_names(folder: str) -> set[str]:
    store = Store.open(folder)
    try:
        return {entry.name for entry in store.entries()}
    except (FileNotFoundError, NotADirectoryError):
        return set()
