"""The graph of a pipeline as SVG coordinates: sources, flows, tables, views. Pure and without script.

Layers by longest path, rows in a layer by the mean of what feeds them (one barycentre pass): pipelines
are small, and a graph that a person can follow with a finger is enough.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from console.presenters import words

HEIGHT: Final = 46
GAP_X: Final = 40
GAP_Y: Final = 26
CHAR: Final = 7.4  # px a character at 13 px; wide enough for the system fonts in use
SIGNS: Final = {"bad": "✕", "stale": "△", "ok": "●", "": ""}


@dataclass(frozen=True)
class Item:
    """A node before it has a place. kind: "", ok, bad, stale."""

    key: str
    name: str
    says: str
    kind: str = ""
    href: str = ""


@dataclass(frozen=True)
class GraphNode:
    name: str
    says: str
    kind: str
    href: str
    x: int
    y: int
    width: int

    @property
    def sign(self) -> str:
        return SIGNS[self.kind]

    @property
    def tx(self) -> int:
        return self.x + 12

    @property
    def ty(self) -> int:
        return self.y + 20

    @property
    def ty2(self) -> int:
        return self.y + 37


@dataclass(frozen=True)
class Edge:
    path: str
    lit: bool


@dataclass(frozen=True)
class GraphDrawing:
    title: str
    says: str
    width: int
    height: int
    nodes: Sequence[GraphNode] = field(default_factory=tuple)
    edges: Sequence[Edge] = field(default_factory=tuple)


def draw_graph(
    title: str, says: str, items: Sequence[Item], edges: Sequence[tuple[str, str]]
) -> GraphDrawing:
    """Place items in layers and join them. Edges to keys that are not items are left out."""
    known = {i.key: i for i in items}
    kept = [(a, b) for a, b in dict.fromkeys(edges) if a in known and b in known and a != b]
    layers = _layer_nodes(list(known), kept)
    widths = [max(_node_width(known[k]) for k in layer) for layer in layers]
    nodes: dict[str, GraphNode] = {}
    x, rows = 2, max((len(layer) for layer in layers), default=0)
    height = rows * (HEIGHT + GAP_Y) - GAP_Y + 4
    for layer, width in zip(layers, widths, strict=True):
        y = 2 + (height - 4 - (len(layer) * (HEIGHT + GAP_Y) - GAP_Y)) // 2
        for key in layer:
            item = known[key]
            nodes[key] = GraphNode(item.name, item.says, item.kind, item.href, x, y, width)
            y += HEIGHT + GAP_Y
        x += width + GAP_X
    lines = [Edge(_edge_path(nodes[a], nodes[b]), known[b].kind in ("bad", "stale")) for a, b in kept]
    return GraphDrawing(title, says, x - GAP_X + 2, height, tuple(nodes.values()), tuple(lines))


def _node_width(item: Item) -> int:
    return 24 + round(CHAR * max(len(item.name), len(item.says) + 2))


def _edge_path(a: GraphNode, b: GraphNode) -> str:
    x1, y1, x2, y2 = a.x + a.width, a.y + HEIGHT // 2, b.x - 2, b.y + HEIGHT // 2
    if y1 == y2:
        return f"M{x1} {y1}H{x2}"
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"


def _layer_nodes(keys: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    depth = dict.fromkeys(keys, 0)
    for _ in keys:  # longest path; a cycle, which Spark forbids, stops after len(keys) rounds
        moved = False
        for a, b in edges:
            if depth[b] < depth[a] + 1 <= len(keys):
                depth[b], moved = depth[a] + 1, True
        if not moved:
            break
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    place: dict[str, float] = {}
    for key in sorted(keys, key=lambda k: depth[k]):
        layers[depth[key]].append(key)
    filled = [layer for layer in layers if layer]
    for layer in filled:
        feeds = {k: [place[a] for a, b in edges if b == k and a in place] for k in layer}
        layer.sort(key=lambda k, f=feeds: sum(f[k]) / len(f[k]) if f[k] else 0.0)  # type: ignore[misc]
        place |= {k: float(n) for n, k in enumerate(layer)}
    return filled


def source_name(description: str) -> str:
    """`changes/*.json`-like name of `FileStreamSource[file:/a/b/changes]`; of Kafka's sources their topics."""
    inner = description.split("[", 1)[1].rstrip("]") if "[" in description else description
    inner = re.sub(r"^(Subscribe|SubscribePattern|Assign)\[", "", inner)
    parts = [p for p in inner.rstrip("/").split("/") if p and not p.endswith(":")]
    return "/".join(parts[-1:]) or description


def shorten_label(name: str) -> str:
    return words.last_part(name)
