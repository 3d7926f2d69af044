"""Entries of a file source's log: rebuilt from entries beside them, else inferred from what is there now.

Facts (FileStreamSource, CompactibleFileStreamLog): an entry holds the files that one batch took; a compacted
entry holds all before it too. Files are taken by mtime, never ones that another entry has.
"""

from collections.abc import Iterable
from urllib.parse import unquote

from recovery.checkpoints import filelog, formats
from recovery.checkpoints.file_layout import lay_out
from recovery.checkpoints.file_listing import MAX_LOG_BYTES
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.repairing.work import CannotRepair, RepairWork
from recovery.checkpoints.report import Finding, SourceEntry
from recovery.contracts.steps import DamageMending

SHOWN = 5  # files in a sentence


def mend_entry(work: RepairWork, finding: Finding) -> DamageMending:
    """A lost, broken or empty entry of a committed batch."""
    assert finding.file is not None, "the finding names the entry"
    folder, _, last = finding.file.rpartition("/")
    parsed = filelog.parse_name(last)
    if parsed is None:
        raise CannotRepair("It is not an entry of a file source's log.")
    number, key = parsed[0], folder.partition("/")[2]
    known = _read_whole_entries(work, folder)
    known.pop(number, None)
    compact = _is_compacted(work, folder, number)
    before = _list_earlier_entries(known, number) if compact else []
    own, batch = _infer_entries(work, key, number, known)
    for name in (str(number), f"{number}.compact"):
        work.layout.leave_out(f"{folder}/{name}")
    name = f"{folder}/{number}.compact" if compact else f"{folder}/{number}"
    work.layout.write(name, filelog.source_lines([*before, *own]))
    how = (
        f"Rebuilt from the listing: {len(own)} of the listed files are in no other entry and are not newer than "
        f"batch {batch}, which took them: {_describe_file_names(own)}. Nothing proves it: "
        "a file that came later with an older time looks the same. Look whether the table has their rows."
    )
    return DamageMending(code=finding.code, file=name, says=finding.says, how=how, exact=False)


def _describe_file_names(own: list[SourceEntry]) -> str:
    names = [unquote(item.path).rsplit("/", 1)[-1] for item in own[:SHOWN]]
    more = f" and {len(own) - SHOWN} more" if len(own) > SHOWN else ""
    return ", ".join(names) + more


def _is_compacted(work: RepairWork, folder: str, number: int) -> bool:
    index = filelog.index_of(work.layout.names(folder))
    others = {i: n for i, n in index.items() if i != number}
    return bool((number + 1) % filelog.compact_interval(others) == 0)


def _read_whole_entries(work: RepairWork, folder: str) -> dict[int, list[SourceEntry]]:
    """Entries by log id, from every file of this log that can be read and is not empty."""
    store = lay_out(work.layout, work.old)
    entries: dict[int, dict[str, SourceEntry]] = {}
    for name in sorted(work.layout.names(folder)):
        if filelog.parse_name(name) is None:
            continue
        try:
            for item in filelog.parse_source(store.read(f"{folder}/{name}", MAX_LOG_BYTES)):
                entries.setdefault(item.batch_id, {})[item.path] = item
        except Malformed:
            continue
    return {number: list(items.values()) for number, items in entries.items()}


def _list_earlier_entries(known: dict[int, list[SourceEntry]], number: int) -> list[SourceEntry]:
    lost = next((n for n in range(number) if n not in known), None)
    if lost is not None:
        raise CannotRepair(f"It is a compacted entry, and entry {lost} before it is gone too.")
    return [item for n in range(number) for item in known[n]]


def _infer_entries(
    work: RepairWork, key: str, number: int, known: dict[int, list[SourceEntry]]
) -> tuple[list[SourceEntry], int]:
    """Files that only this entry can have taken. Raises CannotRepair where that is not clear."""
    listed = work.known.listings.get(key)
    if listed is None:
        raise CannotRepair("Which files it named is not written anywhere else, and no listing was given.")
    taken, at = _taken_by(work, key, number)
    seen = {unquote(item.path) for items in known.values() for item in items}
    own = [
        SourceEntry(path, mtime, number)
        for path, mtime in sorted(listed.files, key=lambda f: f[1])
        if unquote(path) not in seen and mtime <= at
    ]
    gaps = _others_lost(known, max([number, *known]), number)
    if gaps:
        raise CannotRepair(
            f"Entries {number} and {gaps[0]} are both lost: which files each of them took is open."
        )
    if not own:
        raise CannotRepair("No listed file can have been in it: its files are gone.")
    if listed.max_files is not None and len(own) > listed.max_files:
        raise CannotRepair(
            f"{len(own)} unread files are old enough, and a batch takes at most {listed.max_files}: which ones is open."
        )
    return own, taken


def _others_lost(known: Iterable[int], newest: int, number: int) -> list[int]:
    have = set(known)
    return [n for n in range(newest + 1) if n not in have and n != number]


def _taken_by(work: RepairWork, key: str, number: int) -> tuple[int, int]:
    """(batch, its plan time in ms): the batch whose range first reaches this entry."""
    for batch in work.batches("offsets"):
        file = work.offsets(batch)
        line = next((s for s in file.sources if s.key == key), None) if file else None
        reached = formats.log_offset(line.offset_json) if line else None
        if file is None or reached is None:
            continue
        before = work.offsets(batch - 1) if batch else None
        stood = (
            next((formats.log_offset(s.offset_json) for s in before.sources if s.key == key), None)
            if before
            else None
        )
        if reached >= number and (batch == 0 or (before is not None and (stood is None or stood < number))):
            return batch, file.timestamp_ms
    raise CannotRepair("The batch that took it is no longer in the checkpoint, so its time is not known.")
