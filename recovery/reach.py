"""Where this console may read: the operator's settings and a workspace's roots, as rules that every open asks.

`recovery.apps` installs `default` for every process. A page and a task narrow it to the workspace whose flow they
show (`reading`); a page gives it a deadline and the instance's breaker, too (`in_request`).
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

from django.conf import settings

from recovery import outbound
from recovery.breaker import SharedBreaker
from recovery.checkpoints import access, local
from recovery.checkpoints.access import Access, Rules
from recovery.errors import Refused, WrongUse
from recovery.models import Flow, Pipeline, Stream, Workspace
from recovery.people import visible
from recovery.people.roles import ENVIRONMENTS, Actor, Right

P = ParamSpec("P")
Result = TypeVar("Result")

SHOWN: Final = ("storage", "warehouse", "workspace", "incident")
"""Folders of REPRISE_HOME that hold pipelines' data and code; all else there is the console's own."""
REQUEST_SECONDS: Final = 10.0
"""How long all that one page asks of storage may take."""
REMEMBERED_SECONDS: Final = 60.0
"""How long it is remembered that a machine may be called."""


def default() -> Access:
    """What holds where no one narrowed it: the operator's settings."""
    return _default(str(settings.REPRISE_HOME), settings.REPRISE_DATA_ROOTS, settings.REPRISE_OUTBOUND_ALLOW)


@lru_cache(maxsize=8)
def _default(home: str, data_roots: str, allow: str) -> Access:
    allowed = outbound.parse_allowed(allow)
    here = Path(home).resolve()
    rules = Rules(
        local_roots=split(data_roots),
        hidden=(str(here), *access.SYSTEM),
        shown=tuple(str(place / name) for place in homes_of_servers(here) for name in SHOWN),
        own_code=tuple(sorted({str(settings.ROOT), *map(os.path.realpath, (sys.prefix, sys.base_prefix))})),
        homes=_homes(),
        may_call=_Guard(allowed),
    )
    return Access(rules)


def homes_of_servers(home: Path) -> list[Path]:
    """Homes of Pipelines API servers on this machine: the console's own, and below it those of the servers that are one
    environment's each."""
    return [home, *[home / "environments" / name for name in ENVIRONMENTS]]


def folders_of_pipelines() -> list[Path]:
    """Where Pipelines API servers on this machine keep the code of their pipelines."""
    return [place / "workspace" for place in homes_of_servers(Path(settings.REPRISE_HOME).resolve())]


def _homes() -> tuple[str, ...]:
    """Folders of people on this machine."""
    try:
        people = [str(entry) for entry in Path("/home").iterdir()]
    except OSError:
        people = []
    return ("/root", str(Path.home()), *people)


class _Guard:
    """Whether a machine that an address names may be called; asked again after a minute."""

    def __init__(self, allowed: outbound.AllowedAddresses) -> None:
        self._allowed = allowed
        self._known: dict[tuple[str, int], float] = {}

    def __call__(self, host: str, port: int, named: bool) -> None:
        """Raises Refused: `storage_host` where neither a root nor the operator names it, `outbound`."""
        if not named and not self._is_allowed(host):
            raise Refused(
                f"No root of this workspace names {host}, so nothing is asked there. An admin can add one in Settings "
                "> Workspaces, an operator can allow the host in REPRISE_OUTBOUND_ALLOW.",
                code="storage_host",
            )
        now = time.monotonic()
        if self._known.get((host, port), 0.0) > now:
            return
        address = f"[{host}]" if ":" in host else host
        outbound.check(f"storage://{address}:{port}", allowed=self._allowed, schemes=("storage",))
        self._known[host, port] = now + REMEMBERED_SECONDS

    def _is_allowed(self, host: str) -> bool:
        address = outbound.literal(host)
        return self._allowed.name(host) or (address is not None and self._allowed.network(address))


def split(text: str) -> tuple[str, ...]:
    """Roots by commas or lines, as a setting or a form has them."""
    return tuple(part.strip() for part in text.replace("\n", ",").split(",") if part.strip())


def check_roots(roots: Sequence[str]) -> list[str]:
    """A workspace's roots in the form that is kept.

    Raises Refused (`storage_scheme`, `storage_address`, `storage_hidden`, `outbound`).
    """
    rules = default().rules
    return list(dict.fromkeys(access.check_root(root, rules) for root in roots))


def resolve_roots(roots: Sequence[str]) -> dict[str, str]:
    """Where those of these roots that lie on this machine lead now. Raises Refused (`storage_hidden`), Unreachable."""
    rules, found = replace(default().rules, local_roots=()), {}
    for place in map(access.read_place, roots):
        if not place.store:
            real = access.ask_store(local.mount_of(place.path), partial(os.path.realpath, place.path))
            rules.check_file(real)
            found[place.path] = real
    return found


def streams_folder() -> Path:
    """Where rehearsals of plain streams lie, which name no storage of their own."""
    return Path(settings.REPRISE_HOME).resolve() / "storage" / "streams"


def rules_of(workspaces: Iterable[Workspace], rules: Rules) -> Rules:
    """`rules`, held to the roots of these workspaces."""
    held = list(workspaces)
    roots = tuple(root for workspace in held for root in workspace.roots)
    if roots and any(workspace.has_streams for workspace in held):
        roots = (*roots, str(streams_folder()))
    real = tuple(pair for workspace in held for pair in workspace.real_roots.items())
    return replace(rules, roots=roots, real_roots=real)


@contextmanager
def reading(workspace: Workspace) -> Iterator[None]:
    """Only what lies below this workspace's roots is opened in here, where it has any."""
    now = access.current_access()
    with access.using_access(replace(now, rules=rules_of([workspace], now.rules))):
        yield


@contextmanager
def reading_within(workspace: Workspace, seconds: float) -> Iterator[None]:
    """As `reading`, and storage has to answer within so many seconds. Opening raises Unreachable after that
    (`store_silent`, `store_slow`)."""
    with reading(workspace):
        now = access.current_access()
        with access.using_access(replace(now, until=time.monotonic() + seconds)):
            yield


@contextmanager
def reading_typed(location: str, by: Actor) -> Iterator[None]:
    """A place that a person named on a page is opened in here: below the workspaces' roots, where each of them has
    any, and not below the storage of a pipeline that this person does not see. Where a workspace has none, that would
    be any place of the machine or a store: it takes the right to run recoveries. Raises Refused, WrongUse."""
    if not access.scheme_of(location) and not location.startswith("/"):
        raise WrongUse(
            "Spell the path in full, from / on, or as scheme://bucket/folder.", code="storage_address"
        )
    unseen = list_out_of_sight(by)
    for storage in unseen:
        if access.is_below(location, storage):
            raise Refused(access.explain_outside(location), code="storage_root")
    workspaces = list(Workspace.objects.active())
    are_limited = bool(workspaces) and all(workspace.roots for workspace in workspaces)
    if not are_limited and not by.may(Right.RECOVER):
        raise Refused(
            "Not every workspace has storage roots, so reading a checkpoint by its path needs the right to run "
            "recoveries. Paste the text alone, or ask an admin to name the roots.",
            code="storage_without_roots",
        )
    now = access.current_access()
    rules = replace(rules_of(workspaces if are_limited else (), now.rules), unseen=unseen)
    with access.using_access(replace(now, rules=rules)):
        yield


@contextmanager
def reading_in_sight(workspace: Workspace, by: Actor) -> Iterator[None]:
    """As `reading`, and nothing is opened of what this person does not see, through links and folders above either."""
    with reading(workspace):
        now = access.current_access()
        with access.using_access(replace(now, rules=replace(now.rules, unseen=list_out_of_sight(by)))):
            yield


def list_out_of_sight(by: Actor) -> tuple[str, ...]:
    """Storage of pipelines in environments where `by` sees none; checkpoints and tables of streams there. Their event
    logs are not among it: one folder holds those of many. Links of this machine are followed."""
    seen = visible.filter_visible(by)
    hidden = Pipeline.objects.exclude(seen) if seen else Pipeline.objects.none()
    storage = [str(spec.get("storage") or "") for spec in hidden.values_list("spec", flat=True)]
    streams = Stream.objects.filter(pipeline__in=hidden).values_list("checkpoint", "sink")
    places = {place for place in (*storage, *(place for pair in streams for place in pair)) if "/" in place}
    return tuple(sorted(map(follow_links, places)))


def follow_links(place: str) -> str:
    """Where a place on this machine really is; any other as it is."""
    try:
        read = access.read_place(place)
    except Refused:
        return place  # no place that is opened
    return (
        place
        if read.store
        else access.ask_store(local.mount_of(read.path), partial(os.path.realpath, read.path))
    )


def of_flow(act: Callable[Concatenate[Flow, P], Result]) -> Callable[Concatenate[Flow, P], Result]:
    """What a function opens for a flow, its first argument, lies below the roots of the flow's workspace."""

    @wraps(act)
    def narrowed(flow: Flow, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        with reading(flow.pipeline.workspace):
            return act(flow, *args, **kwargs)

    return cast(
        Callable[Concatenate[Flow, P], Result], narrowed
    )  # the same call, without mypy's wrapper type


@contextmanager
def in_request() -> Iterator[None]:
    """Storage has to answer before a page's time is over, and one that does not is left alone for a while."""
    until = time.monotonic() + REQUEST_SECONDS
    with access.using_access(replace(default(), until=until, breaker=SharedBreaker())):
        yield
