"""One POST to a receiver: allowed addresses only, no redirect, no proxy, no body read, one deadline for it all."""

import ipaddress
import logging
import threading
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from django.conf import settings

from recovery import outbound
from recovery.errors import RepriseError, WrongUse

log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 10.0
WHOLE_SECONDS: Final = 15.0
"""However slowly a receiver drips its answer: it must not hold a worker that recoveries need."""

LONGEST_PAUSE: Final = 3600
REFUSALS: Final = frozenset({400, 413, 415, 422})
"""The receiver says no to this very message: trying it again would hold up those behind it, for nothing."""


class NotDelivered(RepriseError):
    """One try that came to nothing. `again`: another one may help; `pause`: seconds that the receiver asked for."""

    code = "not_delivered"

    def __init__(self, sentence: str, *, code: str | None = None, again: bool = True, pause: int = 0) -> None:
        super().__init__(sentence, code=code)
        self.again = again
        self.pause = pause


def shown_address(url: str) -> str:
    """An address as it may be seen: scheme and host. The path of a chat's webhook is its password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…"


def check_url(url: str) -> str:
    """The address, when the console may call it. Plain http only where an operator allowed the host by name.

    Asks DNS. Raises WrongUse, Refused; neither names the path.
    """
    allowed = outbound.configured()
    try:
        outbound.check(url, allowed=allowed)
    except RepriseError as refusal:
        raise type(refusal)(refusal.sentence.replace(url, shown_address(url)), code=refusal.code) from None
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme == "http" and not (allowed.name(host) or _allowed_literal(host, allowed)):
        raise WrongUse(
            f"{shown_address(url)} is plain http: everyone on the way could read it. Enter an https address, or have "
            "an operator allow the host in REPRISE_OUTBOUND_ALLOW."
        )
    return url


def _allowed_literal(host: str, allowed: outbound.AllowedAddresses) -> bool:
    try:
        return allowed.network(ipaddress.ip_address(host))
    except ValueError:
        return False


class _Adapter(outbound.GuardedAdapter):
    """Remembers its connections, so that the deadline can end them in the middle of a read."""

    def __init__(self, allowed: outbound.AllowedAddresses) -> None:
        self.made: list[Any] = []
        self.ended = False
        super().__init__(allowed)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        pools, made = self.poolmanager.pool_classes_by_scheme, self.made

        def remembered(pool: Any) -> Any:
            guarded = pool.ConnectionCls

            def connect(self: Any) -> Any:
                made.append(self)
                return guarded._new_conn(self)

            connection = type("Remembered", (guarded,), {"_new_conn": connect})
            return type("RememberedPool", (pool,), {"ConnectionCls": connection})

        self.poolmanager.pool_classes_by_scheme = {k: remembered(v) for k, v in pools.items()}

    def end(self) -> None:
        self.ended = True
        for connection in self.made:
            try:
                connection.sock.shutdown(2)
            except (OSError, AttributeError):
                log.debug("a connection had ended by itself")


def post_message(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send it once. Returns when the receiver answers 2xx. Raises NotDelivered, with no secret in its sentence."""
    try:
        check_url(url)
    except RepriseError as refusal:
        raise NotDelivered(refusal.sentence, code=refusal.code) from None
    adapter, session = _Adapter(outbound.configured()), requests.Session()
    session.trust_env = False  # a proxy of the environment would call for us what we refuse to call
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    late = threading.Timer(WHOLE_SECONDS, adapter.end)
    late.daemon = True
    late.start()
    try:
        with session, session.post(
            url, data=body, headers={"User-Agent": "Reprise", "Content-Type": "application/json", **headers},
            timeout=(CONNECT_SECONDS, SILENT_SECONDS), allow_redirects=False, stream=True,
            verify=settings.REPRISE_NOTIFY_CA or True,
        ) as answer:  # fmt: skip  # its body is not read: no one needs it, and it may have no end
            if adapter.ended:  # a head that was cut off in the middle reads like a whole one
                raise requests.Timeout
            _judge_answer(answer)
    except requests.RequestException as error:
        raise _explain_silence(url, requests.Timeout() if adapter.ended else error) from None
    finally:
        late.cancel()


def _judge_answer(answer: requests.Response) -> None:
    status = answer.status_code
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotDelivered(f"The receiver answers with a redirect ({status}). Enter the address it leads to.")
    if status in REFUSALS:
        raise NotDelivered(f"The receiver refuses this message (HTTP {status}).", again=False)
    asked = answer.headers.get("Retry-After", "")
    pause = min(int(asked), LONGEST_PAUSE) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 0
    raise NotDelivered(f"The receiver answers with HTTP {status}.", pause=pause)


def _explain_silence(url: str, error: requests.RequestException) -> NotDelivered:
    """What to raise where no answer came; never the library's own text, since that quotes the whole address."""
    where, cause = shown_address(url), str(error)
    if isinstance(error, requests.exceptions.SSLError):
        return NotDelivered(f"{where} shows a certificate that is not trusted.", code="not_trusted")
    if isinstance(error, requests.exceptions.Timeout):
        return NotDelivered(f"{where} does not answer in time.", code="late")
    if "REPRISE_OUTBOUND_ALLOW" in cause:
        says = f"{where} leads to an address that the console may not call (REPRISE_OUTBOUND_ALLOW)."
        return NotDelivered(says, code="outbound")
    if "NameResolutionError" in cause:
        says = f"The name of {where} is not known to the name service of the worker."
        return NotDelivered(says, code="no_such_host")
    if "refused" in cause:
        return NotDelivered(f"{where} refuses the connection.")
    return NotDelivered(f"The connection to {where} broke before it answered ({type(error).__name__}).")
