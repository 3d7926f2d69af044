"""Positions of a file source that a person names: what they read again, and what they skip. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recovery.checkpoints.report import SourceEntry
from recovery.checkpoints.uris import canonical_uri, encode_uri
from recovery.errors import Refused
from recovery.sources.base import (
    InputFile,
    PartChange,
    PartMove,
    PositionPart,
    Precision,
    StartCandidate,
    StartChoice,
)
from recovery.sources.comparing import NOTHING_READ, ZERO, count_noun, format_time, require_one_wish
from recovery.sources.file_facts import DIRECTORY, FileSourceFacts, list_unread, log_entry_of, measure_files

OF = "a file source"
CAN = ("at_ms", "file", "earliest", "latest", "by_hand")


@dataclass(frozen=True)
class FileCandidate(StartCandidate):
    """`read`: what the log of a seed at this position must hold, no file more, in the order of their log ids."""

    read: tuple[SourceEntry, ...] = ()


def find_file_position(wanted: StartChoice, committed: str | None, facts: FileSourceFacts) -> FileCandidate:
    """As `files.find_position`."""
    before = log_entry_of(committed)
    named = require_one_wish(wanted, of=OF, can=CAN)
    if facts.listing is None:
        raise Refused(
            "The directory could not be listed, so the cost of a position is not known. Look at the storage first."
        )
    done = facts.read_at(-1 if before is None else before)
    read, said = _resolve_request(named, wanted, done, facts)
    upto = log_entry_of(wanted.by_hand) if named == "by_hand" else None
    kept = _read_log_entries(read, facts.newest_entry if upto is None else upto, facts)
    return _build_candidate(committed, done, read, kept, said, facts)


def _resolve_request(
    named: str, wanted: StartChoice, done: Mapping[str, SourceEntry], facts: FileSourceFacts
) -> tuple[set[str], dict[str, str]]:
    """Decoded URIs that count as read at the wanted position, and what has to be said of it."""
    if named == "by_hand":
        log_id = log_entry_of(wanted.by_hand)
        if log_id is None or log_id > facts.newest_entry:
            raise Refused(
                f"The log has the entries up to {facts.newest_entry}; {wanted.by_hand} is not among them."
            )
        return set(facts.read_at(log_id)), {}
    if named == "earliest":
        return set(), {}
    if named == "latest":
        return {*done, *facts.there}, {}
    if named == "file":
        return _after_file(canonical_uri(wanted.file or ""), done, facts), {}
    return _before_time(wanted.at_ms or 0, facts)


def _after_file(path: str, done: Mapping[str, SourceEntry], facts: FileSourceFacts) -> set[str]:
    order = [*done, *(f.path for f in facts.in_turn(facts.listing or ()) if f.path not in done)]
    if path not in order:
        raise Refused(
            f"{path} is neither in the source's log nor in its directory, which have {count_noun(len(order), 'file')}. "
            "Give a path as it is listed."
        )
    return set(order[: order.index(path) + 1])


def _before_time(at_ms: int, facts: FileSourceFacts) -> tuple[set[str], dict[str, str]]:
    """Files with an older mtime count as read, whatever was read of them; those of exactly that time are read next."""
    if at_ms > facts.asked_ms:
        raise Refused(
            f"{format_time(at_ms)} is in the future; the directory was listed at {format_time(facts.asked_ms)}."
        )
    times = {path: e.timestamp_ms for path, e in facts.entries.items()}
    times.update({f.path: f.mtime_ms for f in facts.listing or () if f.path not in times})
    oldest = min(times.values(), default=None)
    said = {}
    if oldest is not None and at_ms < oldest:
        said[DIRECTORY] = f"No file is older than {format_time(oldest)}: reading begins with the oldest one."
    return {path for path, mtime in times.items() if mtime < at_ms}, said


def _build_candidate(
    committed: str | None,
    done: Mapping[str, SourceEntry],
    read: set[str],
    kept: dict[str, SourceEntry],
    said: dict[str, str],
    facts: FileSourceFacts,
) -> FileCandidate:
    again = [path for path in done if path not in read]
    following = list_unread(kept, facts)
    taken, old = following.new, following.passed_over
    come = {f.path for f in taken}
    skipped = [f.path for f in list_unread(done, facts).new if f.path in read and f.path not in come]
    back = [f.path for f in taken if f.path in done]
    line = f'{{"logOffset":{max((e.batch_id for e in kept.values()), default=-1)}}}'
    before = PositionPart(
        DIRECTORY, None if committed is None else str(log_entry_of(committed)), _files_read(len(done))
    )
    after = PositionPart(DIRECTORY, str(log_entry_of(line)), _files_read(len(read)))
    return FileCandidate(
        offset_json=line,
        label=after.label,
        precision=Precision.EXACT,
        lost=measure_files(skipped, facts) if skipped else ZERO,
        reread=measure_files(back, facts) if back else ZERO,
        changes=(PartChange(DIRECTORY, before, after, _direction_of(bool(skipped), bool(again))),),
        fallbacks=_list_fallbacks(said, [p for p in again if p not in facts.there], old, taken, done, facts),
        read=tuple(kept.values()),
    )


def _direction_of(skips: bool, repeats: bool) -> PartMove:
    if skips and repeats:
        return PartMove.UNCLEAR  # some files are skipped and others come again
    return PartMove.FORWARD if skips else PartMove.BACK if repeats else PartMove.SAME


def _list_fallbacks(
    said: dict[str, str],
    gone: Sequence[str],
    old: Sequence[InputFile],
    taken: Sequence[InputFile],
    done: Mapping[str, SourceEntry],
    facts: FileSourceFacts,
) -> dict[str, str]:
    """What cannot be had as wished: files to be read again that are gone or too old; old ones that come in again."""
    words = [said[DIRECTORY]] if DIRECTORY in said else []
    late = [f for f in old if f.path in done]
    before = {f.path for f in list_unread(done, facts).passed_over}
    anew = [f for f in taken if f.path in before]
    if gone:
        words.append(
            f"{count_noun(len(gone), 'file')} that would be read again {'is' if len(gone) == 1 else 'are'} gone."
        )
    if late:
        words.append(f"{count_noun(len(late), 'file')} would be too old to be read again (maxFileAge).")
    if anew:
        words.append(
            f"{count_noun(len(anew), 'file')} that Spark ignores now as too old would be read (maxFileAge)."
        )
    return {DIRECTORY: " ".join(words)} if words else {}


def _read_log_entries(read: set[str], upto: int, facts: FileSourceFacts) -> dict[str, SourceEntry]:
    """Entries of the log up to one that are read, by decoded URI, and one more for files that no entry names yet."""
    held = {path: e for path, e in facts.read_at(upto).items() if path in read}
    following = max((e.batch_id for e in held.values()), default=-1) + 1
    more = facts.in_turn([f for f in facts.listing or () if f.path in read and f.path not in held])
    return held | {f.path: SourceEntry(encode_uri(f.path), f.mtime_ms, following) for f in more}


def _files_read(number: int) -> str:
    return f"{count_noun(number, 'file')} read" if number else NOTHING_READ
