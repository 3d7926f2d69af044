"""Positions of every source as text: before, after, what that costs. As the page of start offsets shows them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recovery.cli.inspection_text import moment
from recovery.management.commands._base import Answer, table
from recovery.models import Flow
from recovery.names import shown
from recovery.sources import position_view
from recovery.sources.base import Wanted
from recovery.workflow import positioning

MOVED = {
    "forward": "ahead, what is between is never read",
    "back": "back, what is between is read again",
    "new": "new",
    "gone": "gone",
    "unclear": "cannot be compared",
    "same": "unchanged",
}


def answer(flow: Flow, wanted: Mapping[str, Wanted | None], sources: Sequence[Mapping[str, Any]]) -> Answer:
    """`{flow, sources: [Shown], lost, repeated, unmet, api}`; exit 1 where a wish cannot be met."""
    costs, unmet = position_view.sum_costs(sources), positioning.unmet(sources, wanted)
    data = {
        "flow": flow.name,
        "sources": list(sources),
        "lost": list(costs.lost),
        "repeated": list(costs.repeated),
        "unmet": unmet,
        "api": position_view.api_call(
            pipeline_id=flow.pipeline.pipeline_id, flow=flow.name, dataset=flow.dataset
        ),
    }
    return Answer(data, "\n".join(_lines(data)), exit_code=1 if unmet else 0)


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    for one in data["sources"]:
        yield from _source(one)
        yield ""
    for said in data["unmet"]:
        yield f"Cannot be taken: {said}"
    for said in data["lost"]:
        yield f"Rows left out, take them with --accept-loss: {said}"
    for said in data["repeated"]:
        yield f"Rows read again, take them with --accept-repeats: {said}"
    doubts = position_view.list_doubts(data["sources"])
    for said in doubts:
        yield f"Not certain: {said}"
    if not (doubts or data["lost"] or data["repeated"] or data["unmet"]):
        yield "Nothing is left out and nothing is read twice."
    yield "Nothing was changed or chosen."


def _source(one: Mapping[str, Any]) -> Iterator[str]:
    yield f"Source {one['source']}  {one['kind']}  {shown(one['location'])}"
    yield f"  committed   {shown(one['committed']['label'])}"
    yield f"  starts at   {shown(one['after']['label'])}"
    if one["problem"]:
        yield f"  problem     {shown(one['problem'])}"
    for word, name in (("never read", "lost"), ("read again", "reread"), ("waits", "unread")):
        yield f"  {word:<10}  {distance(one[name])}"
    yield f"  readable    {_reach(one['reach'])}"
    moving = [c for c in one["changes"] if c["moved"] != "same" or c["part"] in one["fallbacks"]]
    if moving:
        rows = [(c["part"], c["before"] or "-", c["after"] or "-", MOVED[c["moved"]]) for c in moving]
        yield from (
            f"  {line}" for line in table(("PART", "COMMITTED", "STARTS AT", "CHANGE"), rows).split("\n")
        )
    if quiet := len(one["changes"]) - len(moving):
        yield f"  {quiet:,} part{'' if quiet == 1 else 's'} unchanged"
    for part, why in one["fallbacks"].items():
        yield f"  not as asked, {shown(part)}: {shown(why)}"
    if one["option"]:
        yield f"  in code     {shown(one['option']['code'] or one['option']['note'])}"


def distance(of: Mapping[str, Any]) -> str:
    """`8 rows, 3 files`, and how exact that is."""
    told = [position_view.said_amount(of[name], name[:-1]) for name in ("rows", "files", "bytes") if of[name]]
    return ", ".join(told) or "is not known"


def _reach(of: Mapping[str, Any]) -> str:
    word = {True: "yes", False: "NO", None: "not known"}[of["readable"]]
    until = f" Until {moment(of['until_ms'])}." if of["until_ms"] else ""
    return f"{word}. {shown(of['why'])}{until}"
