"""What this process may open, how long it waits for an answer, and which store it no longer asks. Pure.

Every path and URL that the console opens passes `Store.open`, and an API, a checkpoint or a plan may have named it. So
three things are decided here once. `Rules`: which places may be opened. `until`: when whoever asks must have an answer.
`Breaker`: which stores are left alone for a while, because they do not answer.

`current()` holds for one thread of work (`using`); where none is set, what the process installed (`install`) does.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from recovery.checkpoints.uris import AZURE, FAMILIES, spell_host, spell_place
from recovery.errors import Refused, Unreachable

Result = TypeVar("Result")

OPENED = frozenset(
    {"", "file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "wasb", "wasbs", "hdfs"}
)
"""Schemes of storage; "" is a path. Not http, webhdfs, caches, archives and lists of references, which fsspec opens
too: an address that an API or a checkpoint names would have this machine call any other, or read its own files."""
IN_BUCKETS: Final = frozenset({"s3", "gs", "abfs"})
"""Families of stores whose address names a bucket or a container."""
_NO_HOST: Final = re.compile(r"hdfs://(?:/|$)|abfs://[^/@]*(?:/|$)")
_HOST: Final = re.compile(r"^(hdfs://)[^/]*|^(abfs://[^/@]*)@[^/]*")
SYSTEM: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
    "/var/backups", "/var/lib/dpkg", "/var/log", "/var/run", "/var/spool",
)  # fmt: skip
"""Folders of the machine itself, where no pipeline keeps its data."""
PATIENCE: Final = 4.0
"""Seconds without any answer after which a store counts as silent, for whoever has a deadline."""
SUSPECT_SECONDS: Final = 0.5
"""After so many seconds without an answer a request is one that hangs."""
HANGING: Final = 2
"""No more of a process's callers wait for a store while their requests hang; others are refused at once."""
THREADS: Final = 32
"""Requests that may be under way for callers with a deadline, those that were given up among them."""
SILENT: Final = frozenset(
    {
        "ClientConnectionError", "ConnectTimeoutError", "ConnectionClosedError", "EndpointConnectionError",
        "FSTimeoutError", "ReadTimeoutError", "ServerTimeoutError", "ServiceRequestError",
    }
)  # fmt: skip
"""What clients of stores (botocore, aiohttp, fsspec, azure) call an endpoint that does not answer, beside Python's own
TimeoutError and ConnectionError."""


@dataclass(frozen=True)
class StorePlace:
    """A path or URL, read: `store` names its bucket or machine ("" for this machine's files), `path` what is there.

    `service`: who is asked for it. `host`, `port`: the machine that the address itself names; "" where the operator's
    settings do.
    """

    store: str
    path: str
    service: str = ""
    host: str = ""
    port: int = 0


@dataclass(frozen=True)
class Rules:
    """Which places may be opened."""

    #: a workspace's: only places below one of them, if there are any
    roots: tuple[str, ...] = ()
    #: (root, where it led when a person named it) on this machine; another root is where it says, through no link
    real_roots: tuple[tuple[str, str], ...] = ()
    #: the operator's: as `roots`, for files of this machine alone
    local_roots: tuple[str, ...] = ()
    #: real paths of folders of this machine that are never opened
    hidden: tuple[str, ...] = ()
    #: exceptions below hidden folders and outside of `local_roots`; `roots` hold for them too
    shown: tuple[str, ...] = ()
    #: folders of the programs that run this console: read, never changed
    own_code: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    #: real paths and URLs of what the person who asks does not see
    unseen: tuple[str, ...] = ()
    #: (host, port, named by a root): raises Refused for a machine that may not be called
    may_call: Callable[[str, int, bool], None] | None = field(default=None, compare=False)

    @property
    def limits_files(self) -> bool:
        """May some file of this machine not be opened?"""
        return bool(self.hidden or self.local_roots or self.roots or self.own_code or self.unseen)

    def check_remote(self, location: str, place: StorePlace) -> None:
        """Raises Refused (`storage_root`, `storage_host`, `outbound`)."""
        named = [root for root in map(read_place, self.roots) if root.store == place.store]
        if self.roots and not any(_is_below(place.path, root.path) for root in named):
            raise Refused(_explain_outside_roots(location), code="storage_root")
        if any(is_below(location, unseen) for unseen in self.unseen if scheme_of(unseen)):
            raise Refused(_explain_outside_roots(location), code="storage_root")
        if place.host and self.may_call is not None:
            self.may_call(place.host, place.port, bool(named))

    def check_file(self, path: str) -> None:
        """Of a real path, absolute and without links.

        Raises Refused (`storage_root`, `storage_root_moved`, `storage_hidden`).
        """
        if not _is_below_any(path, self.shown):
            self._check_machine(path)
        if _is_below_any(path, self.unseen):
            raise Refused(_explain_outside_roots(path), code="storage_root")
        if self.roots:
            self._check_roots(path)

    def check_change(self, path: str) -> None:
        """Of a real path that is about to be written, renamed or removed. Raises Refused (`own_code`).

        Who may patch a pipeline's code may name any file as that code, the console's among them.
        """
        if _is_below_any(path, self.own_code) and not _is_below_any(path, self.shown):
            raise Refused(
                f"{path} belongs to the programs of this console: nothing is changed there. Keep a stream's program, "
                "checkpoint and table in folders of their own.",
                code="own_code",
            )

    def _check_machine(self, path: str) -> None:
        """What the operator leaves to be read."""
        if _is_below_any(path, self.hidden) or self._is_of_a_person(path):
            raise Refused(
                f"{path} belongs to the console or the machine itself: no pipeline's data is read there. Keep "
                "checkpoints and tables in a folder of their own.",
                code="storage_hidden",
            )
        below = [os.path.realpath(root) for root in _list_local_roots(self.local_roots)]
        if self.local_roots and not _is_below_any(path, tuple(below)):
            raise Refused(_explain_outside_roots(path), code="storage_root")

    def _check_roots(self, path: str) -> None:
        """By where the roots were when they were named: whoever can write beside one can put a link in its place."""
        kept = {root: root for root in _list_local_roots(self.roots)} | dict(self.real_roots)
        if any(_is_below(path, where) for where in kept.values()):
            return
        moved = [root for root, where in kept.items() if _is_below(path, os.path.realpath(root))]
        if moved:
            raise Refused(
                f"{moved[0]} leads to another folder than when it was named as a root: nothing is read there. Where "
                "that is right, an admin can take the root out of the workspace, save, and add it again.",
                code="storage_root_moved",
            )
        raise Refused(_explain_outside_roots(path), code="storage_root")

    def _is_of_a_person(self, path: str) -> bool:
        """Settings and keys of a person: `~/.ssh`, `~/.aws` and all else whose name begins with a dot."""
        return bool(self.homes) and path.startswith(_list_prefixes(self.homes, "."))


class Breaker(Protocol):
    """Which stores do not answer; shared by all processes of an instance."""

    def admit_request(self, store: str) -> bool:
        """Whether this is a trial after silence. Raises Unreachable (`store_silent`) while the store is left alone."""

    def note_silence(self, store: str) -> None:
        """It gave no answer."""

    def note_answer(self, store: str) -> None:
        """A trial got an answer."""


@dataclass(frozen=True)
class Access:
    """`until`: by `time.monotonic()`, when an answer must be there; None: whoever asks has deadlines of its own."""

    rules: Rules = Rules()
    until: float | None = None
    breaker: Breaker | None = None


_current: ContextVar[Access | None] = ContextVar("storage_access", default=None)
_default: list[Callable[[], Access]] = []


def install_access(default: Callable[[], Access]) -> None:
    """What holds in this process where nothing else is set."""
    _default[:] = [default]


def current_access() -> Access:
    return _current.get() or (_default[0]() if _default else Access())


@contextmanager
def using_access(access: Access) -> Iterator[None]:
    """`access` holds for what is opened in here."""
    token = _current.set(access)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def allow_anywhere() -> Iterator[None]:
    """Any place may be opened: for a person at the machine, who names it with that machine's rights."""
    with using_access(replace(current_access(), rules=Rules())):
        yield


def carry_access(act: Callable[..., Result]) -> Callable[..., Result]:
    """The same for a thread of a pool, which would begin without what holds here."""
    access = current_access()

    def run(*given: Any) -> Result:
        with using_access(access):
            return act(*given)

    return run


def scheme_of(location: str) -> str:
    """`s3a://bucket/x` -> `s3a`; empty for a path."""
    scheme, separator, _ = location.partition("://")
    return scheme if separator else ""


def check_scheme(location: str) -> None:
    """Raise Refused (`storage_scheme`) unless fsspec may be given this path or URL, whoever named it."""
    scheme = scheme_of(location)
    if "::" in location or location.startswith(
        "data:"
    ):  # chained file systems; content that is its own address
        scheme = location.partition(":")[0]
    elif scheme in OPENED:
        return
    raise Refused(
        f"A place that begins with {scheme[:40]!r} is not opened. Name a path, or a URL of file, s3, gs, abfs, wasb "
        "or hdfs, without '::'.",
        code="storage_scheme",
    )


def read_place(location: str) -> StorePlace:
    """What a path or URL leads to; asks nothing. Raises Refused (`storage_scheme`, `storage_address`)."""
    check_scheme(location)
    scheme = scheme_of(location)
    if scheme in ("", "file"):
        return StorePlace("", re.sub(r"^file:/*(?=/)", "", location))
    family = FAMILIES.get(scheme, scheme)
    authority, _, path = location.partition("://")[2].partition("/")
    if ".." in path.split("/") or any(ord(c) < 32 or c == "\\" for c in location):
        raise Refused(_explain_unusable_location(location), code="storage_address")
    if family == "hdfs" or (family == "abfs" and "@" in authority):
        return _with_host(location, family, authority, path)
    if path and not authority and family in IN_BUCKETS:  # a client would take the first folder for the bucket
        raise Refused(_explain_unusable_location(location), code="storage_address")
    return StorePlace(f"{family}://{authority}", f"/{path}".rstrip("/"), family)


def _with_host(location: str, family: str, authority: str, path: str) -> StorePlace:
    """Of an address that names a machine: `hdfs://host:port/x`, `abfss://container@host/x`."""
    container, at, name = authority.rpartition("@")
    try:
        parts = urlsplit(f"//{name}")
        host, port = (parts.hostname or "").rstrip("."), parts.port or 0
    except ValueError as error:
        raise Refused(_explain_unusable_location(location), code="storage_address") from error
    if any(c in location for c in "?#%") or (family == "hdfs" and at) or (name and not host):
        raise Refused(_explain_unusable_location(location), code="storage_address")
    machine = f"[{host}]" if ":" in host else host
    named = spell_host(f"{machine}{f':{port}' if port else ''}", family)
    is_cloud = family == "abfs" and host.endswith(AZURE)
    store, service = f"{family}://{container}{at}{named}", f"{family}://{named}"
    return StorePlace(store, f"/{path}".rstrip("/"), service, "" if is_cloud else host, port or 8020)


def check_root(location: str, rules: Rules) -> str:
    """A root as a person wrote it, in the form that is kept: a folder or a bucket, spelled in full.

    Raises Refused (`storage_scheme`, `storage_address`, `storage_hidden`, `outbound`).
    """
    location = location.strip().rstrip("/")
    place = read_place(location)
    if place.store:
        if place.store.endswith("://") and place.store != "hdfs://":
            raise Refused(_explain_unusable_location(location), code="storage_address")
        if place.host and rules.may_call is not None:
            rules.may_call(place.host, place.port, True)
        return location
    real = os.path.normpath(place.path)
    if not place.path.startswith("/") or real.strip("/") == "" or "\0" in real:
        raise Refused(_explain_unusable_location(location), code="storage_address")
    replace(rules, roots=(), local_roots=()).check_file(real)
    return real


def check_roots(location: str, roots: Sequence[str]) -> None:
    """Raise Refused (`storage_root`) for a place outside of these roots, where there are any. Touches nothing."""
    if not roots:
        return
    place = read_place(location)
    path = place.path if place.store else os.path.normpath(place.path)
    below = [root.path for root in map(read_place, roots) if root.store == place.store]
    if not any(_is_below(path, root) for root in below):
        raise Refused(_explain_outside_roots(location), code="storage_root")


def is_below(location: str, root: str) -> bool:
    """Does a path or URL lead to this root or below it, or may it, as settings name the machine? Links of this machine
    are followed. Raises Refused."""
    try:
        root_place = read_place(root)
    except Refused:
        return False  # no place that is opened
    place = read_place(location)
    if bool(place.store) != bool(root_place.store):
        return False
    if not place.store:
        return _is_below(os.path.realpath(place.path), os.path.realpath(root_place.path))
    spelled, above = spell_place(location), spell_place(root)
    if any(_NO_HOST.match(one) for one in (spelled, above)):
        spelled, above = (_HOST.sub(r"\1\2", one) for one in (spelled, above))
    return _is_below(spelled, above)


def explain_outside(location: str) -> str:
    """Why a place is not opened, in a sentence."""
    return _explain_outside_roots(location)


def ask_store(store: str, call: Callable[[], Result]) -> Result:
    """What `call` answers, which asks this store (its `service`); with a deadline, no later than that.

    Raises what `call` raises; with a deadline Unreachable too: `store_silent` where the store gives no answer or is
    left alone for that, `store_slow` where the deadline is near, `store_busy`.
    """
    access = current_access()
    if access.until is None or not store:
        return call()
    is_trial = access.breaker.admit_request(store) if access.breaker else False
    asked = _Asked(store)
    asked.start(carried_free(call))
    if not asked.wait(access.until):
        if time.monotonic() - asked.since >= PATIENCE and access.breaker:
            access.breaker.note_silence(store)
        code = "store_slow" if time.monotonic() >= access.until else "store_silent"
        raise Unreachable(f"{shown_store(store)} does not answer. Try again when it does.", code=code)
    if asked.error is not None:
        if access.breaker and is_silence(asked.error):
            access.breaker.note_silence(store)
        raise asked.error
    if is_trial and access.breaker:
        access.breaker.note_answer(store)
    result: Result = asked.result
    return result


def carried_free(call: Callable[[], Result]) -> Callable[[], Result]:
    """As `carried`, without the deadline: the thread that asks is given up by who waits, and asks no one else."""
    context = copy_context()
    access = replace(current_access(), until=None)

    def run() -> Result:
        with using_access(access):
            return call()

    return lambda: context.run(run)


def shown_store(store: str) -> str:
    """A store in a sentence."""
    return f"The storage {store}" if store else "The storage"


def is_silence(error: BaseException) -> bool:
    """Does this say that no one answered, rather than what was answered? Looks at its causes too."""
    seen: BaseException | None = error
    while seen is not None:
        names = {kind.__name__ for kind in type(seen).__mro__}
        if isinstance(seen, TimeoutError | ConnectionError) or names & SILENT:
            return True
        seen = seen.__cause__
    return False


_lock = threading.Lock()
_under_way: dict[str, list["_Asked"]] = {}


class _Asked:
    """One request, asked by a thread of its own, which whoever waits can give up. `waited_for` until then."""

    def __init__(self, store: str) -> None:
        self.store, self.since = store, time.monotonic()
        self.ended, self.waited_for = threading.Event(), True
        self.result: Any = None
        self.error: BaseException | None = None

    def start(self, call: Callable[[], object]) -> None:
        """Raises Unreachable where others wait in vain already, or too many requests are under way."""
        with _lock:
            own = _under_way.setdefault(self.store, [])
            if len(_list_hanging_requests(own, self.since)) >= HANGING:
                raise Unreachable(
                    f"{shown_store(self.store)} does not answer others. Try again when it does.",
                    code="store_silent",
                )
            if sum(map(len, _under_way.values())) >= THREADS:
                raise Unreachable(
                    "Too many requests to storage are under way. Try again in a minute.", code="store_busy"
                )
            own.append(self)
        threading.Thread(target=self._run_call, args=(call,), name="storage", daemon=True).start()

    def _run_call(self, call: Callable[[], object]) -> None:
        try:
            self.result = call()
        except BaseException as error:  # raised on by whoever waits
            self.error = error
        with _lock:
            own = _under_way[self.store]
            own.remove(self)
            if not own:
                del _under_way[self.store]
        self.ended.set()

    def wait(self, until: float) -> bool:
        """Is there an answer? No later than `until`, and sooner where others have hung for longer."""
        end = min(until, self.since + PATIENCE)
        while not self.ended.wait(max(0.0, min(0.1, end - time.monotonic()))):
            now = time.monotonic()
            with _lock:
                elders = _list_hanging_requests(_under_way.get(self.store, ()), now)[:HANGING]
                is_spare = len(elders) == HANGING and self not in elders
                if now >= end or is_spare:
                    self.waited_for = False
                    return self.ended.is_set()
        return True


def _list_hanging_requests(asked: Sequence[_Asked], now: float) -> list[_Asked]:
    """Those that someone waits for and that should have been answered, the oldest first."""
    return [request for request in asked if request.waited_for and now - request.since > SUSPECT_SECONDS]


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def _is_below_any(path: str, roots: tuple[str, ...]) -> bool:
    """`_is_below` of each of them at once: every file of a checkpoint is asked for against dozens of folders."""
    return bool(roots) and f"{path}/".startswith(_list_prefixes(roots))


@lru_cache(maxsize=256)
def _list_prefixes(roots: tuple[str, ...], then: str = "") -> tuple[str, ...]:
    return tuple(f"{root.rstrip('/')}/{then}" for root in roots)


def _list_local_roots(roots: Sequence[str]) -> list[str]:
    return [place.path for place in map(read_place, roots) if not place.store]


def _explain_outside_roots(location: str) -> str:
    return (
        f"{location} is outside of the places that the console may read here. An admin can add a root in Settings > "
        "Workspaces; an operator limits this machine's folders with REPRISE_DATA_ROOTS."
    )


def _explain_unusable_location(location: str) -> str:
    return (
        f"{location[:200]!r} cannot be used: name a folder, or scheme://bucket/folder, spelled in full, without '..', "
        "'?', '#' and '%' in an address that names a machine."
    )
