"""Pages read by codes and values: what `data-code` says is on them, not in which words.

The words of a code are asserted once, in `tests/unit/words`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

VOID: Final = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source",
                         "track", "wbr"))  # fmt: skip
"""Elements without an end."""
JOINED: Final = frozenset(("wbr", "time", "b", "code", "a", "span", "strong", "del", "ins"))
"""Elements inside a line: what they hold belongs to the word beside it."""


@dataclass(repr=False)
class Element:
    """One element of a page. `attributes`: an attribute without a value holds an empty text."""

    tag: str
    attributes: dict[str, str]
    children: list["Element | str"] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{self.tag or 'page'} {self.attributes}>"

    def inside(self) -> Iterator["Element"]:
        """Every element below this one, in the order of the page."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.inside()

    def all(self, tag: str = "", **attributes: str | bool) -> list["Element"]:
        """Elements below with this tag and these attributes; `_` stands for `-`, True and False for there or not."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [e for e in self.inside() if tag in ("", e.tag) and e.has(wanted)]

    def has(self, wanted: dict[str, str | bool]) -> bool:
        return all(
            (name in self.attributes) is value
            if isinstance(value, bool)
            else self.attributes.get(name) == value
            for name, value in wanted.items()
        )

    @property
    def text(self) -> str:
        """What a person reads in it, on one line."""
        return " ".join("".join(self._pieces()).split())

    def _pieces(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
                continue
            gap = "" if child.tag in JOINED else " "
            yield gap
            yield from child._pieces()
            yield gap

    @property
    def codes(self) -> list[str]:
        """The `data-code` of every element below, in the order of the page."""
        return [e.attributes["data-code"] for e in self.inside() if e.attributes.get("data-code")]

    def one(self, code: str) -> "Element":
        """The element with this code. Fails where there is none, or more than one."""
        found = self.all(data_code=code)
        assert len(found) == 1, f"{len(found)} elements have the code {code}. Codes here: {self.codes}"
        return found[0]

    def value(self, code: str) -> str:
        """The `data-value` of the element with this code."""
        return self.one(code).attributes["data-value"]

    def primary(self) -> dict[str, str] | None:
        """Attributes of the page's one primary act, a link or a button; None without one that can be pressed."""
        found = self.all(id="primary")
        return found[0].attributes if found else None

    def disabled(self, act: str) -> bool:
        """Whether the button of this act (its value, else its `data-act`) is there and cannot be pressed."""
        buttons = [
            b for b in self.all("button") if act in (b.attributes.get("value"), b.attributes.get("data-act"))
        ]
        assert buttons, f"There is no button {act}."
        return all("disabled" in b.attributes for b in buttons)

    def acts(self) -> set[str]:
        """Values of the buttons that can be pressed."""
        return {
            b.attributes["value"] for b in self.all("button", disabled=False) if b.attributes.get("value")
        }

    def links(self) -> list[str]:
        return [a.attributes["href"] for a in self.all("a", href=True)]

    def row(self, head: str) -> "Element":
        """The table row whose head begins with this text."""
        return next(
            r for r in self.all("tr") if any(h.text.startswith(head) for h in r.all("th", scope="row"))
        )

    def cell(self, label: str) -> str:
        """What a row says under this column."""
        return self.all("td", data_label=label)[0].text


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if any(e.tag == tag for e in self.open[1:]):
            while self.open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(html: str) -> Element:
    """A page, or a part of one, as a tree."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.open[0]


def shown(answer: Any) -> Element:
    """The page that an answer of Django's client holds."""
    return parse(answer.content.decode())


def asked(client: Any, path: str) -> Element:
    """The page under this path, as this client sees it."""
    return shown(client.get(path))


def refusal(answer: Any) -> str | None:
    """The code of the refusal on the page that this answer holds."""
    found = shown(answer).all(role="alert", data_code=True)
    return found[0].attributes["data-code"] if found else None
