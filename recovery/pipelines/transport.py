"""One HTTP call to a Pipelines API: who we are, how long we wait, what an answer means.

A GET is tried again after a dropped connection, and after 429 and 503 once the pause that the answer asks for is over,
where that is short. Nothing else ever is: the API has no
idempotency token, so an act that was sent once and not answered has an unknown outcome.
"""

import os
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import requests
from urllib3.exceptions import NewConnectionError

from recovery import trace
from recovery.bounded import read_json
from recovery.errors import NotFound, OutcomeUnknown, RepriseError, Unreachable
from recovery.numbers import whole
from recovery.outbound import ADVICE, AllowedAddresses, ForbiddenAddress, GuardedAdapter, cause_of
from recovery.pipelines.errors import ActiveUpdate, ApiBusy, ApiDenied, ApiError

GET_TRIES: Final = 3
CONNECT_SECONDS: Final = 5.0
LONGEST_PAUSE: Final = 10.0
ACTIVE: Final = re.compile(r"active update '([0-9a-zA-Z-]{1,80})'", re.IGNORECASE)
CONFLICTS: Final = {
    409: ("RESOURCE_CONFLICT", "INVALID_STATE", "ABORTED", ""),
    400: ("INVALID_STATE", "BAD_REQUEST", ""),
}
"""By status the codes under which services refuse a start because an update is active; they are not documented, and
"" is an answer without one. Under any other, the words of `ACTIVE` may speak of something else."""
MOST_ANSWER: Final = 64 * 1024 * 1024  # bytes, unpacked
PIECE: Final = 1 << 16
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ResponseHead:
    """An answer, whatever it says: `status` of HTTP, `milliseconds` until its head was there, `is_json`: does its body
    claim to be JSON, `certificate_until`: when the server's certificate ends (None: not known, or no TLS)."""

    status: int
    milliseconds: int
    is_json: bool
    certificate_until: datetime | None


class _ApiBearer(requests.auth.AuthBase):
    """Sets the token last, so that no .netrc entry takes its place."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request


class Transport:
    """Calls to one workspace. `timeout` seconds is how long an answer may take; not safe across threads.

    With `allowed`, a connection to an address that is neither public nor allowed fails. No proxy of the environment
    is used.
    """

    def __init__(
        self,
        *,
        url: str,
        token: str,
        timeout: float = 30.0,
        pause: Callable[[float], None] = time.sleep,
        allowed: AllowedAddresses | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._timeout = (min(CONNECT_SECONDS, timeout), timeout)
        self._pause = pause
        self._session = requests.Session()
        self._session.auth = _ApiBearer(token)
        if allowed is not None:
            self._session.mount("http://", GuardedAdapter(allowed))
            self._session.mount("https://", GuardedAdapter(allowed))
        self._session.trust_env = (
            False  # a proxy would be connected to instead, and would call what we refuse
        )
        self._session.verify = (
            os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        )

    def __repr__(self) -> str:
        return f"Transport({self.url})"

    def close(self) -> None:
        self._session.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object at `path`. Raises Unreachable, ApiDenied, NotFound, ApiError."""
        for attempt in range(1, GET_TRIES + 1):
            try:
                response = self._send("GET", path, params, None)
            except requests.RequestException as error:
                if attempt == GET_TRIES:
                    raise self._silence(error) from None
                self._pause(0.2 * attempt)
                continue
            pause = _retry_after(response, attempt)
            if response.status_code not in (429, 503) or attempt == GET_TRIES or pause > LONGEST_PAUSE:
                break
            self._pause(pause)
        self._check(response, acted=False)
        return self._object(response, acted=False)

    def reach(self, path: str, params: Mapping[str, Any]) -> ResponseHead:
        """Ask once and look at the connection. Raises Unreachable where nothing answers or the address is refused."""
        began = time.monotonic()
        try:
            response = self._session.get(
                self.url + path, params=params, timeout=self._timeout, allow_redirects=False, stream=True
            )
        except requests.RequestException as error:
            raise self._silence(error) from None
        took = round((time.monotonic() - began) * 1000)
        with response:
            kind = response.headers.get("Content-Type", "")
            return ResponseHead(
                response.status_code, took, "json" in kind.lower(), _certificate_end(response)
            )

    def act(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **params: Any
    ) -> dict[str, Any]:
        """Send a change, once. Raises as `get`, ActiveUpdate, and OutcomeUnknown when no one saw the answer."""
        try:
            response = self._send(method, path, params or None, body)
        except requests.ConnectTimeout as error:
            raise self._silence(error) from None
        except requests.RequestException as error:
            if _never_sent(error):
                raise self._silence(error) from None
            raise OutcomeUnknown(
                f"{method} {path} was sent to {self.url} and the answer was lost: it may have happened. "
                "Look at the pipeline before you repeat it."
            ) from None
        self._check(response, acted=True)
        return self._object(response, acted=True)

    def _send(
        self, method: str, path: str, params: Mapping[str, Any] | None, body: Mapping[str, Any] | None
    ) -> requests.Response:
        # A redirect would turn POST into GET and report success, so none is followed.
        response = self._session.request(
            method, self.url + path, params=params, json=body, timeout=self._timeout, allow_redirects=False,
            stream=True,
            headers={"Accept": "application/json", **({trace.HEADER: trace.current()} if trace.current() else {})},
        )  # fmt: skip
        with response:
            response._content = _bounded(response)
        return response

    def _check(self, response: requests.Response, *, acted: bool) -> None:
        if 200 <= response.status_code < 300:
            return
        error = self._error(response)
        if acted and response.status_code in (500, 502, 504):
            raise OutcomeUnknown(
                f"The Pipelines API failed while it was acting ({error.sentence.rstrip('.')}): "
                "it may have happened. Look at the pipeline before you repeat it."
            )
        raise error

    def _error(self, response: requests.Response) -> RepriseError:
        status = response.status_code
        error_code, message, metadata = _problem(response)
        message = self._redact(message)
        if error_code in CONFLICTS.get(status, ()) and (named := ACTIVE.search(message)):
            return ActiveUpdate(message, update_id=str(metadata.get("update_id") or named[1]))
        if status == 409 and error_code in ("RESOURCE_CONFLICT", "INVALID_STATE", ""):
            return ActiveUpdate(message, update_id=str(metadata.get("update_id") or ""))
        if status in (401, 403):
            return ApiDenied(
                f"The Pipelines API at {self.url} does not accept the workspace's token for this: {message}"
            )
        if status == 404:
            return NotFound(message)
        if status in (429, 502, 503, 504):
            says = f"The Pipelines API at {self.url} is busy or away (HTTP {status}): {message}"
            return ApiBusy(says, seconds=_retry_after(response, 0))
        return ApiError(
            f"The Pipelines API refused the request (HTTP {status}): {message}",
            status=status,
            error_code=error_code,
        )

    def _object(self, response: requests.Response, *, acted: bool) -> dict[str, Any]:
        if acted and not response.content:
            return {}
        try:
            body = kept_text(read_json(response.content))
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            return body
        says = f"The Pipelines API at {self.url} answered with something that is not its JSON."
        raise (
            OutcomeUnknown(says + " Whether it acted is not known.")
            if acted
            else ApiError(says + " Check the workspace's address.", status=response.status_code)
        )

    def _silence(self, error: requests.RequestException) -> Unreachable:
        """What to raise where no answer came: code `outbound` for an address that may not be called."""
        if isinstance(cause_of(error), ForbiddenAddress):
            says = f"The Pipelines API at {self.url} has an address that Reprise may not call. {ADVICE}"
            return Unreachable(says, code="outbound")
        why = "does not answer in time" if isinstance(error, requests.Timeout) else "cannot be reached"
        return Unreachable(
            f"The Pipelines API at {self.url} {why}. Check that it runs and that its address is right."
        )

    def _redact(self, text: str) -> str:
        return text.replace(self._token, "…") if self._token else text


def _certificate_end(response: requests.Response) -> datetime | None:
    """When the certificate of the connection that answered ends; None without TLS, or where urllib3 does not say."""
    socket = getattr(getattr(response.raw, "connection", None), "sock", None)
    certificate = socket.getpeercert() if isinstance(socket, ssl.SSLSocket) else None
    end = (certificate or {}).get("notAfter")
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(end), UTC) if isinstance(end, str) else None


def _retry_after(response: requests.Response, attempt: int) -> float:
    """Seconds to wait before the next question: as the answer says (seconds or a date), else a little longer each
    time."""
    text = response.headers.get("Retry-After", "").strip()
    if len(text) < 8 and (seconds := whole(text)) is not None:
        return float(seconds)
    try:
        return max((parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):  # TypeError: a date without a zone
        return 0.5 * attempt


def _never_sent(error: requests.RequestException) -> bool:
    """Did it fail before a byte of the request left: name not found, connection refused, TLS, bad address?"""
    if isinstance(error, requests.exceptions.SSLError | requests.exceptions.ProxyError):
        return True
    if isinstance(error, ValueError):  # InvalidURL, MissingSchema, InvalidSchema
        return True
    return isinstance(cause_of(error), NewConnectionError)  # of a name that is not found, too


HALVES: Final = re.compile("[\0\ud800-\udfff]")


def kept_text(value: Any) -> Any:
    """JSON whose texts can be kept and shown: half of a character and NUL, which no page and no database can hold, are
    replaced by the sign for what cannot be read (U+FFFD)."""
    if isinstance(value, str):
        return HALVES.sub("\ufffd", value)
    if isinstance(value, list):
        return [kept_text(one) for one in value]
    if isinstance(value, dict):
        return {HALVES.sub("\ufffd", name): kept_text(one) for name, one in value.items()}
    return value


def _bounded(response: requests.Response) -> bytes:
    """The body; of one that is too large the beginning, which is made no JSON."""
    received = bytearray()
    for piece in response.iter_content(PIECE):
        received += piece
        if len(received) > MOST_ANSWER:
            return bytes(received[:PIECE]) + b"\0"
    return bytes(received)


def _problem(response: requests.Response) -> tuple[str, str, dict[str, Any]]:
    """(error_code, message, metadata) of any error shape that the service is known to answer with."""
    try:
        body = kept_text(read_json(response.content))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        text = re.sub(r"<[^>]{0,500}>", " ", response.text[:2000])
        return "", " ".join(text.split())[:500] or f"HTTP {response.status_code} without a message.", {}
    code = str(body.get("error_code") or body.get("scimType") or "")
    message = body.get("message") or body.get("error") or body.get("detail") or f"HTTP {response.status_code}"
    metadata: dict[str, Any] = {}
    for detail in body.get("details") or []:
        if isinstance(detail, dict) and isinstance(detail.get("metadata"), dict):
            metadata |= detail["metadata"]
    return code, str(message)[:2000], metadata
