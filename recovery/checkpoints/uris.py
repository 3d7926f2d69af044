"""One form for a file's name, whoever wrote it down: Spark's log, a listing, a person.

Spark writes `file:///a/b%20c` (SparkPath, URL-encoded) in its logs, shows `file:/a/b c` elsewhere, and a
listing says `/a/b c`. Compared are decoded URIs: `file:///a/b c`, `s3a://bucket/a b`.
"""

import re
from typing import Final
from urllib.parse import quote, unquote

LEGAL = "/_-!.~'()*,;:$&+=@"  # what java.net.URI leaves as it is in a path, beside letters and digits
_STORE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
FAMILIES: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"} | dict.fromkeys(
    ("abfss", "az", "wasb", "wasbs"), "abfs"
)
"""Schemes that lead to one store -> the one that represents all."""
AZURE: Final = (".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net")
"""How hosts of Azure Storage end."""
PORTS: Final = {"hdfs": "8020"}
"""Default ports of families; 443 of all others."""
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def spell_place(place: str) -> str:
    """The one spelling by which it is decided whether two places are the same. No link is followed.

    `file:/a//b/./` -> `/a/b`; the schemes of one store as one; store and host in small letters, without a default port;
    Azure's addresses as `abfs://container@account.dfs…`. What is neither path nor URL stays as it is.
    """
    match = SCHEME.fullmatch(place)
    scheme, rest = (match[1].lower(), match[2]) if match else ("file", place)
    if not rest.startswith("/"):
        return place
    authority, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    if scheme == "file":
        return _tidy_path(path if authority.lower() == "localhost" else rest)
    if not authority:
        return f"{scheme}:{'//' if scheme == 'hdfs' else ''}{_tidy_path(path)}"
    container, _, host = authority.lower().rpartition("@")
    family = FAMILIES.get(scheme, scheme)
    if scheme in ("http", "https") and host.partition(":")[0].endswith(AZURE):
        family, (container, _, path) = "abfs", path.lstrip("/").partition("/")
    store = f"{container}@" if container else ""
    return f"{family}://{store}{spell_host(host, family)}{_tidy_path(path).rstrip('/')}"


def spell_host(host: str, family: str) -> str:
    """`name:port` in small letters, without a default port; of an Azure account's two endpoints that for folders."""
    match = re.fullmatch(r"(.*?)\.?(?::0*([0-9]*))?", host.lower())
    assert match is not None, "every text has this form"
    name, port = match[1], match[2] or ""
    if name.endswith(AZURE):
        name = name.replace(".blob.core.", ".dfs.core.")
    return name if port in ("", PORTS.get(family, "443")) else f"{name}:{port}"


def _tidy_path(path: str) -> str:
    """From its one leading slash on, without empty parts and `.`."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def canonical_uri(path: str) -> str:
    """A path or a URI that is not URL-encoded -> decoded URI. `/a`, `file:/a`, `file:///a` -> `file:///a`."""
    if path.startswith("file:///") and path[8:9] != "/":
        return path  # as it is to be; a log has a million of them
    match = SCHEME.fullmatch(path)
    scheme, rest = (match[1].lower(), match[2]) if match else ("file", path)
    if scheme != "file":
        return f"{scheme}:{rest}"
    if rest.startswith("//"):
        host, slash, below = rest[2:].partition("/")
        rest = f"{slash}{below}" if host in ("", "localhost") else rest
    return f"file:///{rest.lstrip('/')}"


def strip_file_scheme(place: str) -> str:
    """A local path from its one leading slash on, without `file:`; any other place as it is."""
    return "/" + place.removeprefix("file:").lstrip("/") if place.startswith(("file:/", "/")) else place


def path_in_store(uri: str) -> str:
    """A path or decoded URI without scheme and host: `s3://` and `s3a://`, `file:/` and `file:///`, a default store
    named or not are spellings of one place."""
    return _STORE.sub("", uri)


def decode_uri(uri: str) -> str:
    """A URL-encoded URI, as Spark's logs hold it -> decoded URI in canonical form."""
    return canonical_uri(unquote(uri))


def encode_uri(uri: str) -> str:
    """A decoded URI -> as Spark's logs write it (SparkPath.urlEncoded: Path.toUri, which keeps non-ASCII letters)."""
    return "".join(c if ord(c) > 127 and not c.isspace() else quote(c, safe=LEGAL) for c in uri)
