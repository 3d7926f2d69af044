"""Sources of the checkpoint and of the new code that are not one to one: who goes on as whom, and what is left open."""

from collections.abc import Sequence
from dataclasses import asdict

from recovery.checkpoints.report import Finding, Severity
from recovery.checkpoints.table_progress import reconcile_report
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.option import Blocker, BlockerCode
from recovery.contracts.positions import AddedSource, DroppedSource, SourceMapping, SourcePair
from recovery.sources import mapping, position_view
from recovery.sources.comparing import nothing_in
from recovery.sources.mapping import MappingProposal
from recovery.strategies import common
from recovery.strategies.base import Facts
from recovery.strategies.source_places import list_moved
from recovery.strategies.sources import say_all_again

CARRIED_OVER = "their positions cannot be carried over one to one. Put the sources back, or {}."

NOT_AS_LOOKED_AT = "Which source is which was seen otherwise when they were looked at. Look again."


def old_of(facts: Facts) -> tuple[int | None, ...]:
    """For each of `facts.sources` the source of the checkpoint that it goes on as; None: it is new."""
    return facts.source_map or tuple(range(len(facts.sources)))


def one_to_one(facts: Facts) -> bool:
    """Whether every source goes on as the one in its place, and none was added or dropped, as far as is known."""
    held = len(facts.checkpoint.sources)
    there = held if facts.new_code.operators is None else len(facts.new_code.sources)
    return there == held and old_of(facts) == tuple(range(len(facts.sources)))


def propose_mapping(facts: Facts) -> MappingProposal | None:
    """Who continues whom; None where they are one to one, or nothing can be proposed."""
    if one_to_one(facts) or not all(reader.is_shown for reader in facts.new_code.sources):
        return None
    held = reconcile_report(facts.checkpoint).sources
    old = [mapping.old_source(s, unread=facts.unread_of.get(s.index)) for s in held]
    new = [mapping.new_source(n, reader) for n, reader in enumerate(facts.new_code.sources)]
    return mapping.propose_mapping(old, new)


def as_dict(facts: Facts) -> SourceMapping | None:
    """The proposal as pages show it, with what is still to be confirmed."""
    proposal = propose_mapping(facts)
    if proposal is None:
        return None
    return SourceMapping(
        pairs=tuple(SourcePair(**asdict(pair)) for pair in proposal.pairs),
        added=tuple(AddedSource(**asdict(added)) for added in proposal.added),
        dropped=tuple(
            DroppedSource(
                old=d.old,
                unread=None if d.unread is None else position_view.show_distance(d.unread),
                says=d.says,
            )
            for d in proposal.dropped
        ),
        notes=proposal.notes,
        unconfirmed=_open(facts, proposal),
    )


def block(facts: Facts) -> Blocker | None:
    """What has to be said first, where the sources are not one to one; None when all is."""
    if one_to_one(facts):
        return None
    if not facts.checkpoint.sources and facts.checkpoint.blockers:
        return common.damaged(facts)
    proposal = propose_mapping(facts)
    if proposal is None or not facts.source_map or not _as_looked_at(facts, proposal):
        seen_otherwise = Blocker(code=BlockerCode.SOURCES_SEEN_OTHERWISE, says=NOT_AS_LOOKED_AT)
        return find_mismatch(facts, facts.checkpoint.sources) or seen_otherwise
    if left := _open(facts, proposal):
        says = f"Confirm first which sources are which: {', '.join(left)}. {' '.join(_questions(proposal, left))}"
        return Blocker(code=BlockerCode.SOURCES_UNCONFIRMED, says=says)
    startless = [a for a in proposal.added if facts.sources[int(a.new)].start is None]
    if startless:
        where = facts.sources[int(startless[0].new)].location
        says = f"Choose where source {startless[0].new} ({where}) begins. {startless[0].asks}"
        return Blocker(code=BlockerCode.SOURCE_WITHOUT_START, says=says)
    return None


def find_mismatch(facts: Facts, held: Sequence[object], so: str = "") -> Blocker | None:
    """Why the code's sources do not fit a checkpoint that has `held`; `so` ends the sentence; "": as for a seed."""
    there = len(facts.new_code.sources)
    if there == len(held):
        return None
    so = so or CARRIED_OVER.format(say_all_again(facts))
    sources = f"{len(held):,} source{'' if len(held) == 1 else 's'}"
    return Blocker(
        code=BlockerCode.SOURCES_DIFFER, says=f"The checkpoint has {sources}, the code has {there}: {so}"
    )


def left_behind(facts: Facts) -> RowAmount | None:
    """Unread rows of sources that no source of the new code continues; None where there are none.

    As the old code would have written them, where Spark counted that; else as many as lie there, at most.
    """
    proposal = propose_mapping(facts)
    waits = [
        d for d in (proposal.dropped if proposal else ()) if d.unread is None or not nothing_in(d.unread)
    ]
    if not waits:
        return None
    index = {s.name or str(s.index): s.index for s in facts.checkpoint.sources}
    written = [facts.yields_of.get(index[d.old]) for d in waits]
    lying = [d.unread.rows.value if d.unread and d.unread.rows else None for d in waits]
    rows = [lies if counted is None else counted for counted, lies in zip(written, lying, strict=True)]
    files = [d.unread.files if d.unread else None for d in waits]
    every_row = facts.old_code is not None and facts.old_code.operators == ()
    return RowAmount(
        rows=None if None in rows else sum(r for r in rows if r is not None),
        bound=Bound.ESTIMATE.unless(every_row and None not in written),
        why=" ".join(d.says for d in waits),
        files=sum(f.value for f in files if f is not None),
    )


def findings(facts: Facts) -> tuple[Finding, ...]:
    """What becomes of each source that was added or dropped, or is in another place."""
    proposal = propose_mapping(facts)
    if proposal is None:
        return () if facts.source_map else tuple(list_moved(facts.sources, facts.checkpoint.sources))
    listed = [
        Finding(
            "SOURCE_DROPPED", Severity.WARNING, d.says, "Put the source back, unless you no longer need it."
        )
        for d in proposal.dropped
    ]
    for added in proposal.added if facts.source_map else ():
        start = facts.sources[int(added.new)].start
        if start is not None:
            says = f"Source {added.new} is new and starts at {start.label}; earlier input is not read."
            listed.append(Finding("SOURCE_ADDED", Severity.INFO, says, "Make sure that it is meant."))
    listed += [Finding("SOURCES_MOVED", Severity.INFO, note, "Nothing to do.") for note in proposal.notes]
    return tuple(listed)


def _as_looked_at(facts: Facts, proposal: MappingProposal) -> bool:
    """Whether the facts of each source are of the one that it is said to continue."""
    index = {s.name or str(s.index): s.index for s in facts.checkpoint.sources}
    to = {p.new: index[p.old] for p in proposal.pairs}
    return old_of(facts) == tuple(to.get(str(n)) for n in range(len(facts.sources)))


def _open(facts: Facts, proposal: MappingProposal) -> tuple[str, ...]:
    return tuple(key for key in proposal.unconfirmed if key not in facts.confirmed)


def _questions(proposal: MappingProposal, left: Sequence[str]) -> list[str]:
    asked = [p.confirm for p in proposal.pairs if f"{p.old}->{p.new}" in left]
    return [*asked, *(d.says for d in proposal.dropped if f"{d.old}->" in left)]
