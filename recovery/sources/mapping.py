"""Old sources of a checkpoint and new sources of the code: which is which, which is new, which is dropped. Pure.

Without it Spark ends with "There are [1] sources in the checkpoint offsets and now there are [2] sources requested by
the query", and takes two sources that changed places for each other without a word (OffsetSeq.toStreamProgress: by
order, or by name where sources are named). What is found here is a proposal: only names, and places that are equal,
are certain; all else a person confirms.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from recovery.checkpoints.formats import Malformed, object_of
from recovery.checkpoints.report import SourceProgress
from recovery.checkpoints.uris import canonical_uri, decode_uri
from recovery.contracts.positions import Certainty as Certainty
from recovery.contracts.readers import SourceReader
from recovery.sources import registry
from recovery.sources.base import Distance
from recovery.sources.comparing import count_noun, option_of

GLOB = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class OldSource:
    """A source of the checkpoint. `key`: its index or name there; `places`: directories, topics, table ids.

    `unread`: what waits after its position (None: not known).
    """

    key: str
    kind: str
    offset_json: str | None
    places: frozenset[str] = frozenset()
    name: str | None = None
    unread: Distance | None = None


@dataclass(frozen=True)
class NewSource:
    """A source of the code. `key`: its index in plan order, or its name; `places` as the code names them."""

    key: str
    kind: str
    places: frozenset[str] = frozenset()
    name: str | None = None


@dataclass(frozen=True)
class ProposedPair:
    """An old source that goes on as a new one. `why`: one sentence; `confirm`: what a person has to say yes to."""

    old: str
    new: str
    certainty: Certainty
    why: str
    confirm: str = ""


@dataclass(frozen=True)
class ProposedAddition:
    """A new source that nothing was read of. It has no start until someone chooses one."""

    new: str
    asks: str


@dataclass(frozen=True)
class ProposedDrop:
    """An old source that no new one continues. `unread`: what is then never read (None: not known)."""

    old: str
    unread: Distance | None
    says: str


@dataclass(frozen=True)
class MappingProposal:
    """Every old source is in a pair or dropped, every new one in a pair or added."""

    pairs: tuple[ProposedPair, ...] = ()
    added: tuple[ProposedAddition, ...] = ()
    dropped: tuple[ProposedDrop, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """Keys, `old->new` and `old->`, that a person has to confirm."""
        pairs = tuple(f"{p.old}->{p.new}" for p in self.pairs if p.confirm)
        return (*pairs, *(f"{d.old}->" for d in self.dropped))


def old_source(progress: SourceProgress, *, unread: Distance | None = None) -> OldSource:
    """A checkpoint's source and where it reads: directories of its files, topics, the table's id."""
    key = progress.name or str(progress.index)
    position = progress.position or {}
    places: set[str] = set()
    if progress.kind == "files":
        ends = (*progress.committed.first, *progress.planned.first, progress.committed.newest)
        places = {decode_uri(e.path).rpartition("/")[0] for e in ends if e}
    elif progress.kind == "kafka":
        places = set(position)
    elif progress.kind == "delta":
        places = {str(position.get("reservoirId"))} if position.get("reservoirId") else set()
    return OldSource(key, progress.kind, progress.offset_json, frozenset(places), progress.name, unread)


def new_source(index: int, reader: SourceReader) -> NewSource:
    """A source as the code reads it: its kind, and where it reads.

    A Delta table is known by `table_id`, where someone has read it: a checkpoint knows it by that alone.
    """
    kind = registry.kind_of_format(reader.format or "parquet")
    if kind != "kafka":
        place = reader.table_id or reader.location or reader.path
        places = {place} if place else set()
    elif assigned := option_of(reader.options, "assign"):
        places = set(_parse_assigned_topics(assigned))
    else:
        places = {t.strip() for t in (option_of(reader.options, "subscribe") or "").split(",") if t.strip()}
    return NewSource(str(index), kind, frozenset(places), reader.name)


def _parse_assigned_topics(assigned: str) -> list[str]:
    """Topics of `assign`, {"topic": [partitions]}; none where it cannot be read."""
    try:
        return list(object_of(assigned))
    except Malformed:
        return []


def propose_mapping(old: Sequence[OldSource], new: Sequence[NewSource]) -> MappingProposal:
    """Who continues whom: by name, then by equal places, then by places that meet, then the last of a kind."""
    pairs: list[ProposedPair] = []
    for rank in (_by_name, _by_equal_places, _by_meeting_places):
        for old_source in _left_old(old, pairs):
            for other in _left_new(new, pairs):
                if certainty := rank(old_source, other):
                    pairs.append(certainty)
                    break
    pairs += _last_of_kind(_left_old(old, pairs), _left_new(new, pairs))
    order = [old_source.key for old_source in old]
    pairs.sort(key=lambda p: order.index(p.old))
    return MappingProposal(
        pairs=tuple(pairs),
        added=tuple(_describe_added(old_source, old) for old_source in _left_new(new, pairs)),
        dropped=tuple(_describe_dropped(old_source) for old_source in _left_old(old, pairs)),
        notes=_list_order_notes(old, new, pairs),
    )


def _by_name(old: OldSource, new: NewSource) -> ProposedPair | None:
    if old.name is None or old.name != new.name:
        return None
    if not _may_be(old, new):
        return None
    return ProposedPair(old.key, new.key, Certainty.CERTAIN, f"Both are named {old.name}.")


def _by_equal_places(old: OldSource, new: NewSource) -> ProposedPair | None:
    if (
        _named_apart(old, new)
        or old.kind != new.kind
        or not old.places
        or _plain_places(old) != _plain_places(new)
    ):
        return None
    return ProposedPair(old.key, new.key, Certainty.CERTAIN, f"Both read {_name_places(new.places)}.")


def _by_meeting_places(old: OldSource, new: NewSource) -> ProposedPair | None:
    if _named_apart(old, new) or old.kind != new.kind:
        return None
    shared = {p for p in _plain_places(old) if any(_places_meet(p, other) for other in _plain_places(new))}
    if not shared:
        return None
    return ProposedPair(
        old.key,
        new.key,
        Certainty.LIKELY,
        f"The old one read {_name_places(old.places)}, the new one reads {_name_places(new.places)}; "
        f"they meet in {_name_places(shared)}.",
        f"Does {_name_places(new.places)} continue what was read of {_name_places(old.places)}?",
    )


def _last_of_kind(old: Sequence[OldSource], new: Sequence[NewSource]) -> list[ProposedPair]:
    """One old and one new of a kind that are left alone with each other, where one of them names no place."""
    pairs = []
    for source in old:
        same_old = [o for o in old if o.kind == source.kind and o.name is None]
        same_new = [n for n in new if n.kind == source.kind and n.name is None]
        if (
            len(same_old) != 1
            or len(same_new) != 1
            or same_old[0] is not source
            or (source.places and same_new[0].places)
        ):
            continue
        pairs.append(
            ProposedPair(
                source.key,
                same_new[0].key,
                Certainty.LAST_OF_KIND,
                f"No other source of kind {source.kind} is left on either side, and it is not known where one reads.",
                f"Is source {same_new[0].key} of the code what source {source.key} of the checkpoint was?",
            )
        )
    return pairs


def is_elsewhere(old: OldSource, new: NewSource) -> bool:
    """Whether both say where they read, and it is not the same place, nor one within the other.

    A position then means nothing there: offsets of one topic are not those of another, and a log of files names none
    of another directory. Delta tables are known by ids, which the code does not say: their position tells it.
    """
    if old.kind != new.kind or old.kind not in ("files", "kafka"):
        return False
    held, places_now = _plain_places(old), _plain_places(new)
    return bool(held and places_now) and not any(_places_meet(a, b) for a in held for b in places_now)


def _named_apart(old: OldSource, new: NewSource) -> bool:
    """Names that differ: another source, whatever it reads. A name on one side alone says nothing."""
    return old.name is not None and new.name is not None and old.name != new.name


def _may_be(old: OldSource, new: NewSource) -> bool:
    return old.kind == new.kind or "unknown" in (old.kind, new.kind)


def _plain_places(source: OldSource | NewSource) -> frozenset[str]:
    """Places in one form: files' directories as decoded URIs without a last slash."""
    if source.kind != "files":
        return source.places
    return frozenset(canonical_uri(p).rstrip("/") for p in source.places)


def _places_meet(place: str, other: str) -> bool:
    """The same, or a directory and one below it; up to its first wildcard, where it has one."""
    a, b = (GLOB.split(p, maxsplit=1)[0].rpartition("/")[0] if GLOB.search(p) else p for p in (place, other))
    return a == b or a.startswith(f"{b}/") or b.startswith(f"{a}/")


def _left_old(old: Sequence[OldSource], pairs: Sequence[ProposedPair]) -> list[OldSource]:
    taken = {p.old for p in pairs}
    return [source for source in old if source.key not in taken]


def _left_new(new: Sequence[NewSource], pairs: Sequence[ProposedPair]) -> list[NewSource]:
    taken = {p.new for p in pairs}
    return [source for source in new if source.key not in taken]


def _describe_added(source: NewSource, old: Sequence[OldSource]) -> ProposedAddition:
    twin = next((o for o in old if source.name is not None and o.name == source.name), None)
    was = (
        f" Its name belonged to a source of kind {twin.kind} before, whose position does not apply here."
        if twin
        else ""
    )
    where = f" ({_name_places(source.places)})" if source.places else ""
    return ProposedAddition(
        source.key,
        f"Source {source.key}{where} is new: nothing was read of it.{was} Choose where it starts: the earliest reads "
        "all its rows, the latest none that are there now.",
    )


def _describe_dropped(source: OldSource) -> ProposedDrop:
    rows = source.unread.rows if source.unread else None
    files = source.unread.files if source.unread else None
    waits = (
        f"{rows.bound.before_number}{count_noun(rows.value, 'row')} that wait there are never read"
        if rows is not None
        else f"{files.bound.before_number}{count_noun(files.value, 'file')} that wait there are never read"
        if files is not None
        else "how much waits there unread is not known"
    )
    where = f" ({_name_places(source.places)})" if source.places else ""
    return ProposedDrop(
        source.key, source.unread, f"No source of the code continues source {source.key}{where}: {waits}."
    )


def _list_order_notes(
    old: Sequence[OldSource], new: Sequence[NewSource], pairs: Sequence[ProposedPair]
) -> tuple[str, ...]:
    """Sources that changed places: without names Spark goes by the order alone."""
    to = {p.old: p.new for p in pairs}
    order = [source.key for source in new]
    at = [order.index(to[source.key]) for source in old if source.key in to]
    unnamed = any(o.name is None for o in old) or any(n.name is None for n in new)
    if unnamed and at != sorted(at):
        return ("The sources are in another order than before; the offset lines are put in the new one.",)
    return ()


def _name_places(places: Collection[str]) -> str:
    shown = sorted(places)[:3]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return ", ".join(shown) + more if shown else "a place that is not known"
