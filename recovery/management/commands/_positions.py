"""Positions of every source as text: before, after, what that costs. As the page of start offsets shows them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from recovery.cli.inspection_text import moment
from recovery.contracts import codec
from recovery.contracts.positions import InputBetween, InputRetention, PartMove, ShownSource
from recovery.management.commands._base import CommandAnswer, table
from recovery.models import Flow, Recovery
from recovery.names import shown
from recovery.sources import position_view
from recovery.sources.base import StartChoice
from recovery.workflow import positioning

MOVED = {
    PartMove.FORWARD: "ahead, what is between is never read",
    PartMove.BACK: "back, what is between is read again",
    PartMove.NEW: "new",
    PartMove.GONE: "gone",
    PartMove.UNCLEAR: "cannot be compared",
    PartMove.SAME: "unchanged",
}


def answer(
    flow: Flow,
    recovery: Recovery | None,
    wanted: Mapping[str, StartChoice | None],
    sources: Sequence[ShownSource],
) -> CommandAnswer:
    """`{flow, sources: [ShownSource], lost, repeated, unmet, api}`; exit 1 where a wish cannot be met. `api`: null
    where the call would lose rows."""
    costs, unmet = position_view.sum_costs(sources), positioning.list_unmet(sources, wanted)
    call = positioning.find_api_call(flow, recovery)
    data = {
        "flow": flow.name,
        "sources": [codec.to_json(source) for source in sources],
        "lost": list(costs.lost),
        "repeated": list(costs.repeated),
        "unmet": unmet,
        "api": asdict(call) if call else None,
    }
    return CommandAnswer(data, "\n".join(_lines(sources, costs, unmet)), exit_code=1 if unmet else 0)


def _lines(sources: Sequence[ShownSource], costs: position_view.Costs, unmet: Sequence[str]) -> Iterator[str]:
    for one in sources:
        yield from _source(one)
        yield ""
    for said in unmet:
        yield f"Cannot be taken: {said}"
    for said in costs.lost:
        yield f"Rows left out, take them with --accept-loss: {said}"
    for said in costs.repeated:
        yield f"Rows read again, take them with --accept-repeats: {said}"
    doubts = position_view.list_doubts(sources)
    for said in doubts:
        yield f"Not certain: {said}"
    if not (doubts or costs.lost or costs.repeated or unmet):
        yield "Nothing is left out and nothing is read twice."
    yield "Nothing was changed or chosen."


def _source(one: ShownSource) -> Iterator[str]:
    yield f"Source {one.source}  {one.kind}  {shown(one.location)}"
    yield f"  committed   {shown(one.committed.label)}"
    yield f"  starts at   {shown(one.after.label)}"
    if one.problem:
        yield f"  problem     {shown(one.problem)}"
    for word, between in (("never read", one.lost), ("read again", one.reread), ("waits", one.unread)):
        yield f"  {word:<10}  {distance(between)}"
    yield f"  readable    {_reach(one.reach)}"
    moving = [c for c in one.changes if c.moved is not PartMove.SAME or c.part in one.fallbacks]
    if moving:
        rows = [(c.part, c.before or "-", c.after or "-", MOVED[c.moved]) for c in moving]
        yield from (
            f"  {line}" for line in table(("PART", "COMMITTED", "STARTS AT", "CHANGE"), rows).split("\n")
        )
    if quiet := len(one.changes) - len(moving):
        yield f"  {quiet:,} part{'' if quiet == 1 else 's'} unchanged"
    for part, why in one.fallbacks.items():
        yield f"  not as asked, {shown(part)}: {shown(why)}"
    if one.option:
        yield f"  in code     {shown(one.option.code or one.option.note)}"


def distance(of: InputBetween) -> str:
    """`8 rows, 3 files`, and how exact that is."""
    amounts = ((of.rows, "row"), (of.files, "file"), (of.bytes, "byte"))
    return (
        ", ".join(position_view.say_amount(amount, noun) for amount, noun in amounts if amount)
        or "is not known"
    )


def _reach(of: InputRetention) -> str:
    word = {True: "yes", False: "NO", None: "not known"}[of.readable]
    until = f" Until {moment(of.until_ms)}." if of.until_ms else ""
    return f"{word}. {shown(of.why)}{until}"
