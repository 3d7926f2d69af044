"""Template filters and tags of the console: one tag a small component, each with its own partial."""

import json
import re
from functools import lru_cache
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from console.presenters import words
from console.presenters.status import Badge, Dots
from recovery.contracts.amounts import RowAmount
from recovery.contracts.names import name_strategy
from recovery.names import shown

register = template.Library()


@register.simple_tag
def badge(of: Badge, word: str = "", box: bool = False) -> SafeString:
    """A status: word and shape. `word` replaces the status's own word."""
    return _badge_html(of, word or of.word, box)


@register.simple_tag
def badge_ok(word: str) -> SafeString:
    """Something that is as it should be, in its own word."""
    return _badge_html(Badge("ok", word), word, False)


@lru_cache(maxsize=500)
def _badge_html(of: Badge, word: str, box: bool) -> SafeString:
    """Lists show the same few again and again."""
    return _render_line("_components/badge.html", {"b": of, "word": word, "box": box})


@register.simple_tag
@lru_cache(maxsize=500)
def dots(of: Dots) -> SafeString:
    """The last updates of a flow."""
    return _render_line("_components/dots.html", {"d": of})


def _render_line(partial: str, context: dict[str, Any]) -> SafeString:
    """A partial without the end of its line."""
    return mark_safe(render_to_string(partial, context).rstrip("\n"))  # noqa: S308  (rendered, so escaped)


@register.inclusion_tag("_components/icon.html")
def icon(name: str) -> dict[str, Any]:
    return {"name": name}


@register.inclusion_tag("_components/mark.html")
def mark(kind: str) -> dict[str, Any]:
    """A status's shape without its word, beside a sentence that says it."""
    return {"kind": kind}


@register.simple_tag
def when(value: Any, zone: bool = True) -> str:
    """`<time>` with the absolute time in UTC."""
    at = words.parse_moment(value)
    if at is None:
        return format_html('<span class="faint">{}</span>', "unknown")
    return format_html(
        '<time datetime="{}">{}</time>',
        at.isoformat(timespec="seconds"),
        words.format_clock(at, timezone.now(), zone=zone),
    )


@register.simple_tag
def ago(value: Any) -> str:
    """`4 s ago`, which counts up in the page where scripts run (`reprise/ages.js`)."""
    at, says = words.parse_moment(value), words.format_ago(value, timezone.now())
    return (
        format_html('<time datetime="{}" data-ago>{}</time>', at.isoformat(timespec="seconds"), says)
        if at
        else says
    )


@register.simple_tag
def elapsed(value: Any) -> str:
    """`7 s` since that moment, which counts up too."""
    at = words.parse_moment(value)
    if at is None:
        return format_html('<span class="faint">{}</span>', "unknown")
    says = words.format_ago(at, timezone.now()).removesuffix(" ago").replace("just now", "0 s")
    return format_html('<time datetime="{}" data-elapsed>{}</time>', at.isoformat(timespec="seconds"), says)


@register.simple_tag
def usual(of: Any) -> str:
    """` of about 11 s`, or nothing where no run of before tells it."""
    return f" of about {words.format_duration(of.seconds)}" if of else ""


@register.filter
def logtime(value: Any) -> str:
    return words.format_exact(value)


@register.filter
def seen(name: Any) -> str:
    """A name that people gave: characters that cannot be seen are written out."""
    return shown(str(name))


@register.filter
@lru_cache(maxsize=500)
def breakable(text: Any) -> SafeString:
    """Long codes and paths may break after `_`, `/`, `.` and `-`, and nowhere else."""
    return mark_safe(re.sub(r"([_/.\-])", r"\1<wbr>", escape(str(text))))  # noqa: S308  (escaped first)


@register.filter
def paths(text: Any) -> SafeString:
    """A sentence that may hold a path: it breaks after `/` and `_`, so that numbers and labels stay whole."""
    return mark_safe(re.sub(r"([_/])", r"\1<wbr>", escape(str(text))))  # noqa: S308  (escaped first)


@register.filter
def codes(text: Any) -> SafeString:
    """`dropDuplicates` within a sentence becomes code; everything is escaped, a lone backtick stays one."""
    return mark_safe(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(str(text))))  # noqa: S308  (escaped first)


@register.filter
def number(value: Any) -> str:
    return words.format_number(value) if value is None or isinstance(value, int | float) else str(value)


@register.filter
def bounded_rows(amount: RowAmount) -> str:
    """`12`, `at most 12`, `about 12`, `not known`."""
    return words.format_bounded(amount.rows, amount.bound)


@register.filter
def rows(value: int | None) -> str:
    """`1 row`, `2 rows`, `unknown rows`."""
    return words.format_count(value, "row")


@register.filter
def strategy(stored: Any) -> str:
    """The name of a strategy for people."""
    return name_strategy(stored or "")


@register.filter
def last_part(value: Any) -> str:
    return words.last_part(str(value))


@register.filter
def tail(value: Any) -> str:
    return words.name_tail(str(value))


@register.filter
def seconds(value: float) -> str:
    return words.format_duration(value)


@register.filter
def size(value: Any) -> str:
    return words.format_size(value)


@register.filter
def short(value: Any) -> str:
    return words.shorten_hash(value)


@register.filter
def lookup(mapping: Any, key: str) -> Any:
    """A value of a dict by a key that holds characters which a template name may not."""
    return mapping.get(key) if hasattr(mapping, "get") else None


@register.filter
def as_json(value: Any) -> str:
    """An offset as Spark writes it: JSON without spaces, text as it is."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
