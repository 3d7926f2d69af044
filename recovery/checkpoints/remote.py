"""What a Store asks of a file system that is not the local one: few requests, sure answers, one kind of error.

fsspec's own `exists` says no when a store does not answer, `ls` of a missing S3 prefix lists its parent, `mv`
copies in any order, `rm` takes `*` in a name for a pattern, and each client raises errors of its own. A recovery
that builds on any of these would write over what it could not see.
"""

import errno
import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import fsspec

from recovery.checkpoints import access, local, uris
from recovery.errors import RepriseError

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
# No rename of a directory there: a copy and a removal. (Memory is none, but renames in the same way.)
OBJECT_STORES = {"s3", "gs", "gcs", "abfs", "abfss", "az", "memory"}
# Seconds and attempts of one S3 request: an endpoint that is silent is given up after a minute at most.
PATIENCE: Mapping[str, Any] = {
    "connect_timeout": 5,
    "read_timeout": 15,
    "retries": {"total_max_attempts": 3, "mode": "standard"},
    "max_pool_connections": 32,
}
AT_ONCE = 16
BLOCK = 8 << 20  # bytes of one ranged read
CLIENTS: Mapping[str, str] = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs"}
"""What fsspec opens a store with, by its family: a package of its own, and an extra of the command `reprise`."""
LEGACY_MARKER = "_$folder$"  # how Hadoop's s3n and EMR mark a directory


def connect_store(location: str) -> tuple[Any, str]:
    """(file system, path on it) of a path or URL, which the rules in force allow.

    Raises Refused (`storage_scheme`, `storage_address`, `storage_root`, `storage_hidden`, `storage_host`, `outbound`);
    Unreachable; ValueError, ImportError: no one here can open it.
    """
    place = access.read_place(location)
    rules = access.current_access().rules
    if not place.store:
        fs, path = fsspec.core.url_to_fs(location)
        if rules.limits_files:  # the first touch of what may lie on a mount whose server is away
            rules.check_file(access.ask_store(local.mount_of(path), lambda: os.path.realpath(path)))
        return fs, path
    rules.check_remote(location, place)
    if place.store.startswith("s3://"):
        return _open_s3(location)
    fs, path = access.ask_store(place.service, lambda: fsspec.core.url_to_fs(location))
    return _make_remote(fs, Remote, place.service), path


def missing_client(location: str) -> str:
    """Which package this machine lacks to open the URL, in a sentence that says how to get it; "" where none."""
    scheme = access.scheme_of(location)
    family = uris.FAMILIES.get(scheme, scheme)
    client = CLIENTS.get(family, "")
    if not client or find_spec(client) is not None:
        return ""
    return (
        f"{location} cannot be opened: the package {client} is missing here. Install it where Reprise runs: "
        f"pip install {client}, or the extra reprise[{family}] of the command."
    )


def _open_s3(location: str) -> tuple["Remote", str]:
    place = location.partition("://")[2].strip("/")
    if not place:
        raise ValueError("it names no bucket")
    configured = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
    options = {"use_listings_cache": False, "config_kwargs": {**PATIENCE, **configured}}
    fs, path = fsspec.core.url_to_fs(f"s3://{place}", **options)
    fs.retries = 1  # the client below repeats by itself; both together would try fifteen times
    endpoint = _configured_endpoint(fs)
    if endpoint and (may_call := access.current_access().rules.may_call) is not None:
        parts = urlsplit(endpoint)
        may_call(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80), True)
    return _make_remote(fs, S3, f"s3 at {endpoint}" if endpoint else "s3"), path


def _configured_endpoint(fs: Any) -> str:
    """Where the operator's settings say that S3 is; "" for Amazon's own."""
    endpoint = fs.endpoint_url or (fs.client_kwargs or {}).get("endpoint_url")
    return str(endpoint or next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), ""))


@lru_cache(maxsize=64)
def _make_remote(fs: Any, kind: "type[Remote]", store: str) -> "Remote":
    return kind(fs, store)  # one for each file system, so that two stores can tell that theirs is the same


class Remote:
    """A file system by fsspec. Every failure is an OSError; FileNotFoundError only where that is certain."""

    def __init__(self, fs: Any, store: str) -> None:
        self.fs, self.store = fs, store
        protocol = fs.protocol if isinstance(fs.protocol, list | tuple) else (fs.protocol,)
        self.objects = bool(OBJECT_STORES & set(protocol))

    def _ask(self, call: Callable[..., Any], *given: Any, **words: Any) -> Any:
        try:
            return access.ask_store(self.store, lambda: call(*given, **words))
        except RepriseError:
            raise
        except (TypeError, AttributeError, AssertionError):
            raise  # our own mistake
        except PermissionError as error:
            raise PermissionError(
                errno.EACCES, "the storage refuses access; check its key, secret and rights"
            ) from error
        except OSError as error:
            if _s3_error_code(error) == "NoSuchBucket":
                raise OSError(errno.ENXIO, "there is no such bucket") from error
            raise
        except Exception as error:  # each client has a tree of its own: botocore, aiohttp, azure …
            raise OSError(errno.EIO, _first_line_of(error)) from error

    def invalidate_cache(self) -> None:
        self.fs.invalidate_cache()

    def info(self, path: str) -> dict[str, Any]:
        description: dict[str, Any] = self._ask(self.fs.info, path)
        return description

    def exists(self, path: str) -> bool:
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isdir(self, path: str) -> bool:
        try:
            return bool(self.info(path)["type"] == "directory")
        except FileNotFoundError:
            return False

    def ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._ask(self.fs.ls, path, detail=True)
        return entries

    def keys(self, path: str) -> Iterator[tuple[str, int]]:
        """(whole name, size) of every object below; a name that ends in `/` marks a directory."""
        for name, info in self._ask(self.fs.find, path, detail=True).items():
            yield name, int(info.get("size") or 0)

    def read(self, path: str, start: int, end: int) -> bytes:
        """Bytes start..end-1, or as many as there are."""
        try:
            data: bytes = self._ask(self.fs.cat_file, path, start=start, end=end)
        except OSError as error:
            if _s3_error_code(error) in ("InvalidRange", "416"):
                return b""  # nothing from `start` on: the end of the file, or an empty one
            raise
        return data

    def open(self, path: str, mode: str = "rb") -> Any:
        return RangeReader(self, path) if mode == "rb" else self._ask(self.fs.open, path, mode)

    def seekable(self, path: str) -> io.BufferedReader:
        """A file that can be read from any place in it. Its size is asked for when someone reads from its end."""
        return io.BufferedReader(Ranges(self, path), BLOCK)

    def makedirs(self, path: str, exist_ok: bool = True) -> None:
        self._ask(self.fs.makedirs, path, exist_ok=exist_ok)

    def pipe_file(self, path: str, data: bytes) -> None:
        self._ask(self.fs.pipe_file, path, data)

    def cp_file(self, old: str, new: str) -> None:
        self._ask(self.fs.cp_file, old, new)

    def rm_file(self, path: str) -> None:
        self._ask(self.fs.rm_file, path)

    def rm(self, path: str, recursive: bool = True) -> None:
        """A file, or a directory with all that is in it."""
        self._ask(self.fs.rm, path, recursive=recursive)

    def mv(self, old: str, new: str, recursive: bool = False) -> None:
        """A file, or with `recursive` a directory.

        On an object store all is copied, proven to be there, then removed. What is at the top goes last and
        is removed first: at the top of a checkpoint is its `metadata`, and without it no Spark takes the
        directory for a checkpoint. So a directory with `metadata` is whole, and one without is not in use.
        """
        if not recursive:
            self.cp_file(old, new)
            self.rm_file(old)
        elif not self.objects:
            self._ask(self.fs.mv, old, new, recursive=True)
        else:
            self._move_objects(old, new)

    def _move_objects(self, old: str, new: str) -> None:
        all_of_them = {name[len(old) :]: size for name, size in self.keys(old)}  # "/offsets/1" -> bytes
        files = {tail: size for tail, size in all_of_them.items() if not tail.endswith("/")}
        top = [tail for tail in files if tail.count("/") == 1]
        deep = [tail for tail in files if tail.count("/") > 1]
        for part in (deep, top):
            _act_on_each(lambda tail: self.cp_file(old + tail, new + tail), part)
        copied = {name[len(new) :]: size for name, size in self.keys(new)}
        if lacking := [tail for tail, size in files.items() if copied.get(tail) != size]:
            raise OSError(errno.EIO, f"{lacking[0][1:]} did not arrive whole; the old one is still there")
        _act_on_each(lambda tail: self.rm_file(old + tail), top)
        self.rm(old)


class S3(Remote):
    """S3 and what speaks its protocol: one listing for a thousand names, and never above the path asked for."""

    def _list_pages(self, path: str, **words: Any) -> Iterator[dict[str, Any]]:
        bucket, _, key = path.partition("/")
        words |= {"Bucket": bucket, "Prefix": f"{key.rstrip('/')}/" if key.strip("/") else ""}
        while True:
            page = self._ask(self.fs.call_s3, "list_objects_v2", **words)
            yield page
            if not page.get("IsTruncated"):
                return
            words["ContinuationToken"] = page["NextContinuationToken"]

    def keys(self, path: str) -> Iterator[tuple[str, int]]:
        bucket = path.partition("/")[0]
        for page in self._list_pages(path):
            for item in page.get("Contents", []):
                yield f"{bucket}/{item['Key']}", item["Size"]

    def ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
        bucket, entries = path.partition("/")[0], []
        empty = True
        for page in self._list_pages(path, Delimiter="/"):
            folders, items = page.get("CommonPrefixes", []), page.get("Contents", [])
            empty = empty and not folders and not items
            entries += [{"name": f"{bucket}/{f['Prefix']}", "type": "directory"} for f in folders]
            for item in items:
                description = {"size": item["Size"], "LastModified": item["LastModified"]}
                entries.append({"name": f"{bucket}/{item['Key']}", "type": "file", **description})
        if empty and "/" in path and self.info(path)["type"] == "file":
            raise NotADirectoryError(errno.ENOTDIR, "is a file", path)
        return [f for f in entries if not f["name"].endswith(LEGACY_MARKER)]

    def makedirs(self, path: str, exist_ok: bool = True) -> None:
        """Nothing: there are no directories, and asking could make a bucket."""

    def cp_file(self, old: str, new: str) -> None:
        """One request; the client's own copy, which asks for the size first, where that is above 5 GB."""
        (bucket, _, key), (new_bucket, _, new_key) = old.partition("/"), new.partition("/")
        source = {"Bucket": bucket, "Key": key}
        try:
            self._ask(self.fs.call_s3, "copy_object", Bucket=new_bucket, Key=new_key, CopySource=source)
        except OSError as error:
            if _s3_error_code(error) not in ("InvalidRequest", "EntityTooLarge"):
                raise
            super().cp_file(old, new)

    def rm_file(self, path: str) -> None:
        bucket, _, key = path.partition("/")
        self._ask(self.fs.call_s3, "delete_object", Bucket=bucket, Key=key)

    def rm(self, path: str, recursive: bool = True) -> None:
        bucket, _, key = path.partition("/")
        if not key.strip("/"):
            raise OSError(errno.EPERM, "a whole bucket is never removed")
        names = [name.partition("/")[2] for name, _ in self.keys(path)] + [key]
        for start in range(0, len(names), 1000):  # the most that one request may name
            some = {"Objects": [{"Key": name} for name in names[start : start + 1000]], "Quiet": True}
            answer = self._ask(self.fs.call_s3, "delete_objects", Bucket=bucket, Delete=some)
            if failed := answer.get("Errors"):
                raise OSError(
                    errno.EIO, f"{failed[0].get('Key')} was not removed: {failed[0].get('Message')}"
                )


class RangeReader:
    """A file read forward by ranges: a small one costs one request, where fsspec asks for its size first."""

    def __init__(self, remote: Remote, path: str) -> None:
        self.remote, self.path = remote, path
        self.at, self.waiting, self.ended = 0, b"", False

    def __enter__(self) -> "RangeReader":
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held open."""

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer at the end, none after it."""
        while not self.ended and len(self.waiting) < size:
            wanted = max(BLOCK, size - len(self.waiting))
            got = self.remote.read(self.path, self.at, self.at + wanted)
            self.at += len(got)
            self.waiting += got
            self.ended = len(got) < wanted
        piece, self.waiting = self.waiting[:size], self.waiting[size:]
        return piece


class Ranges(io.RawIOBase):
    """A file read by ranges, each one request."""

    def __init__(self, remote: Remote, path: str) -> None:
        super().__init__()
        self.remote, self.path, self.at = remote, path, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: lambda: 0, io.SEEK_CUR: lambda: self.at, io.SEEK_END: self._file_size}[whence]()
        if start + offset < 0:
            raise OSError(errno.EINVAL, "a place before the file", self.path)
        self.at = start + offset
        return self.at

    def readinto(self, into: Any) -> int:
        data = self.remote.read(self.path, self.at, self.at + len(into)) if len(into) else b""
        into[: len(data)] = data
        self.at += len(data)
        return len(data)

    def _file_size(self) -> int:
        return int(self.remote.info(self.path)["size"])


class ParallelActs:
    """Acts several at a time, each begun by the caller in the order that it gives. `threads` 0: at once, by itself.

    No more than `threads` are under way. The first failure is raised at the next call; leaving waits for all, and
    what was not begun by then is not done.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads else None
        self._under_way: deque[Future[object]] = deque()

    def __enter__(self) -> "ParallelActs":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._pool is None:
            return
        try:
            if kind is None:
                self.wait()
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def do(self, act: Callable[[], object]) -> None:
        """Begin `act`, once there is a place for it."""
        if self._pool is None:
            act()
            return
        while len(self._under_way) >= self._threads:
            self._under_way.popleft().result()
        self._under_way.append(self._pool.submit(act))

    def wait(self) -> None:
        """Until all that was begun is done."""
        while self._under_way:
            self._under_way.popleft().result()


def _act_on_each(act: Callable[[str], object], names: Iterable[str]) -> None:
    """Several at a time; the first failure is raised, and what was not begun by then is not done."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = [pool.submit(access.carry_access(act), name) for name in names]
        try:
            for future in done:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _s3_error_code(error: BaseException) -> str:
    """The S3 error code behind an OSError, or nothing."""
    answer = getattr(error.__cause__, "response", None)
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""


def _first_line_of(error: Exception) -> str:
    """A client's own error in words for a sentence: its first line, no address's query (it may be signed)."""
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return re.sub(r"\?[^\s\"]*", "", text) or type(error).__name__
