"""One form for a file's name, whoever wrote it down: Spark's log, a listing, a person.

Spark writes `file:///a/b%20c` (SparkPath, URL-encoded) in its logs, shows `file:/a/b c` elsewhere, and a
listing says `/a/b c`. Compared are decoded URIs: `file:///a/b c`, `s3a://bucket/a b`.
"""

import re
from urllib.parse import quote, unquote

LEGAL = "/_-!.~'()*,;:$&+=@"  # what java.net.URI leaves as it is in a path, beside letters and digits
_STORE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


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
