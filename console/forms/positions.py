"""What the page of start offsets sends: a wish for each source, or single parts of one set by hand."""

from collections.abc import Mapping, Sequence

from django.http import QueryDict

from recovery.contracts.positions import ShownSource
from recovery.errors import WrongUse
from recovery.sources import position_requests
from recovery.sources.base import StartChoice

KEEP, COMMITTED = "keep", "committed"


def read_wishes(
    post: QueryDict, sources: Sequence[ShownSource], looked: Mapping[str, StartChoice]
) -> dict[str, StartChoice | None]:
    """A wish by source; None: as committed. A source whose fields were left alone keeps the wish of the last look.

    Fields: `form.<source>`, `value.<source>`, `part.<source>.<part>`, `parts.<source>`. Raises WrongUse for a field
    that cannot be read, and where two of them contradict each other. `looked`: the wishes of that look.
    """
    return {source.source: _read_wish(post, source, looked.get(source.source)) for source in sources}


def _read_wish(post: QueryDict, source: ShownSource, now: StartChoice | None) -> StartChoice | None:
    key = source.source
    form, value = str(post.get(f"form.{key}", KEEP)), str(post.get(f"value.{key}", "")).strip()
    edits = _read_edits(post, source)
    if edits and form != KEEP:
        raise WrongUse(
            f"Source {key}: set single parts, or the whole source. Both were given.", code="two_positions"
        )
    if edits:
        if "parts" not in source.can:
            raise WrongUse(
                f"A source of kind {source.kind} has no parts that can be set one by one.", code="no_parts"
            )
        return position_requests.with_parts(now, edits)
    if form == KEEP:
        if value:
            raise WrongUse(
                f"Source {key}: choose what {value!r} is: a time, a version, a file, or by hand.",
                code="no_choice",
            )
        return now
    if form == COMMITTED:
        return None
    if form in ("earliest", "latest"):
        return position_requests.parse_wish(form)
    if not value:
        raise WrongUse(
            f"Source {key}: write the {position_requests.WORDS.get(form, form)} next to the choice.",
            code="no_value",
        )
    return position_requests.parse_wish(f"{form}={value}")


def _read_edits(post: QueryDict, source: ShownSource) -> dict[str, str]:
    """Parts whose field differs from what it showed, and those written in lines."""
    stands = {part.name: part.value for part in source.after.parts}
    prefix = f"part.{source.source}."
    fields = {
        name.removeprefix(prefix): str(value).strip()
        for name, value in post.items()
        if name.startswith(prefix)
    }
    changed = {name: value for name, value in fields.items() if value and value != stands.get(name)}
    return changed | position_requests.from_lines(str(post.get(f"parts.{source.source}", "")))


def read_common_time(post: QueryDict, sources: Sequence[ShownSource]) -> dict[str, StartChoice | None]:
    """The time of `at` for every source. Raises WrongUse for what is no time, and for a source that takes none."""
    wish = position_requests.parse_wish(f"time={str(post.get('at', '')).strip()}")
    return dict(position_requests.for_all(wish, sources))
