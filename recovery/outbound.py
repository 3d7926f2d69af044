"""The one rule for addresses that a person enters and the console then calls: workspaces, webhooks.

Without it whoever may enter an address could have the console ask machines that only the console
reaches (SSRF): itself, its database, the metadata service of its cloud. So every address is resolved
and must be a public one, unless the operator allows its name or network in `REPRISE_OUTBOUND_ALLOW`.

Checked twice: when an address is saved (`check`, so that the admin is told at once), and by
`GuardedAdapter` on every connection, on the very IP address that is connected to; a name that
resolves elsewhere the second time (DNS rebinding) therefore gets nowhere. Redirects are the caller's:
never follow one.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError

from recovery.errors import Refused, WrongUse

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], list[str]]

METADATA: Final = frozenset({"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"})
"""Metadata services of AWS, Azure and Google (the first), AWS over IPv6, Alibaba, Azure's wire server.

Refused even inside an allowed network: allowing 169.254.0.0/16 must not hand out the machine's keys.
Only the very address, written out in the setting, allows one.
"""

_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


@dataclass(frozen=True)
class AllowedAddresses:
    """What the operator allows beside public addresses: host names (with `*.` for all below) and networks."""

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def name(self, host: str) -> bool:
        """Is this name allowed, wherever it leads but to metadata? `*.corp.example` allows every name below it."""
        parts = host.split(".")
        return host in self.names or any(
            "*." + ".".join(parts[i:]) in self.names for i in range(1, len(parts))
        )

    def network(self, ip: Address) -> bool:
        exact = any(n.num_addresses == 1 and ip == n.network_address for n in self.networks)
        return exact or (str(ip) not in METADATA and any(ip in n for n in self.networks))


def parse_allowed(text: str) -> AllowedAddresses:
    """`REPRISE_OUTBOUND_ALLOW`: names, addresses and networks by commas. Raises ValueError naming a bad one."""
    names, networks = set(), []
    for entry in (e.strip().lower() for e in text.split(",") if e.strip()):
        try:
            networks.append(ipaddress.ip_network(entry))
        except ValueError:
            if (
                "/" in entry
                or ":" in entry
                or not entry.removeprefix("*.").replace("-", "").replace(".", "").isalnum()
            ):
                raise ValueError(
                    f"REPRISE_OUTBOUND_ALLOW: {entry!r} is neither a host name, an address nor a network."
                ) from None
            names.add(entry)
    return AllowedAddresses(frozenset(names), tuple(networks))


def configured() -> AllowedAddresses:
    """What this instance allows."""
    from django.conf import settings

    return parse_allowed(settings.REPRISE_OUTBOUND_ALLOW)


def system_resolve(host: str, port: int) -> list[str]:
    """Every IP address of a name. Raises OSError when it has none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return sorted({str(entry[4][0]) for entry in found})


def check(
    url: str,
    *,
    allowed: AllowedAddresses | None = None,
    resolve: Resolve = system_resolve,
    schemes: Iterable[str] = ("https", "http"),
) -> str:
    """The URL, when the console may call it. Asks DNS; connects to nothing.

    Raises WrongUse for what is no plain http(s) address (a user in it, another scheme, no host), Refused
    (code `outbound`) for an address that is not public and not allowed, (`no_such_host`) for a name without one.
    """
    allowed = configured() if allowed is None else allowed
    host, port = _host_and_port(url, tuple(schemes))
    if allowed.name(host):
        return url
    try:
        addresses = [host] if literal(host) else resolve(host, port)
    except (OSError, UnicodeError) as error:  # a name that cannot be asked for: a part of it is too long
        raise Refused(
            f"{host} is not known to the name service of this machine.", code="no_such_host"
        ) from error
    for text in addresses:
        if refusal := problem(text, allowed):
            raise Refused(f"{url} cannot be used: {host} {refusal}", code="outbound")
    return url


def problem(address: str, allowed: AllowedAddresses, *, named: bool = False) -> str:
    """Why this IP address may not be called; empty when it may. `named`: its name is an allowed one."""
    ip = literal(address)
    if ip is None:
        return f"resolves to {address}, which is no IP address."
    inner = _inside(ip)
    if named and not {str(ip), str(inner)} & METADATA:
        return ""
    if inner is not None:  # judged by where a router would take it
        why = "" if allowed.network(inner) else _why_not(inner)
        return f"is {ip}, which hides {inner}, {why}. {ADVICE}" if why else ""
    why = "" if allowed.network(ip) else _why_not(ip)
    return f"is {ip}, {why}. {ADVICE}" if why else ""


ADVICE: Final = "Enter a public address, or have an operator allow it in REPRISE_OUTBOUND_ALLOW."


def _why_not(ip: Address) -> str:
    if str(ip) in METADATA:
        return "a cloud's metadata service"
    kinds = {
        "an unspecified address": ip.is_unspecified,
        "an address of this machine": ip.is_loopback,
        "a link-local address": ip.is_link_local,
        "a multicast address": ip.is_multicast,
        "a private address": ip.is_private,
        "a reserved address": ip.is_reserved,
        "an address that is not public": not ip.is_global,
    }
    return next((words for words, holds in kinds.items() if holds), "")


def _inside(ip: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address inside an IPv6 one (mapped, 6to4, Teredo, NAT64): routers may take it there."""
    if isinstance(ip, ipaddress.IPv4Address):
        return None
    if any(ip in n for n in _NAT64):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)


def literal(host: str) -> Address | None:
    """The IP address that a host is written as; None for a name."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _host_and_port(url: str, schemes: tuple[str, ...]) -> tuple[str, int]:
    words = " or ".join(f"{s}://" for s in schemes)
    if any(
        c.isspace() or ord(c) < 32 or c == "\\" for c in url
    ):  # parsers differ on these: nobody needs them
        raise WrongUse(f"An address is {words}host[:port]/path, without blanks or backslashes.")
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise WrongUse(f"The address cannot be read. Write it as {words}host[:port]/path.") from error
    if parts.scheme not in schemes or not parts.hostname or "@" in parts.netloc:
        raise WrongUse(f"An address is {words}host[:port]/path, without a user or a password.")
    return parts.hostname.rstrip(".").lower(), port


class ForbiddenAddress(NewConnectionError):
    """A connection was made to an address that may not be called, and closed before a word was sent."""


def cause_of(error: requests.RequestException) -> object:
    """What urllib3 raised inside of a request's failure; the failure's own argument where it raised nothing."""
    inner = error.args[0] if error.args else None
    return getattr(inner, "reason", inner)


class _Guarded:
    """A connection that looks at the address it got before it says a word; `allowed` is set by the adapter."""

    allowed: AllowedAddresses
    host: str

    def _new_conn(self) -> socket.socket:
        made: socket.socket = super()._new_conn()  # type: ignore[misc]
        peer = str(made.getpeername()[0])
        named = self.allowed.name(self.host.rstrip(".").lower())
        refusal = problem(peer, self.allowed, named=named)
        if refusal:
            made.close()
            raise ForbiddenAddress(self, f"{self.host} {refusal}")  # type: ignore[arg-type]
        return made


def _pools(allowed: AllowedAddresses) -> dict[str, type[HTTPConnectionPool]]:
    """Connection pools of urllib3 whose connections are guarded with what is allowed here."""
    plain = type("GuardedHTTP", (_Guarded, HTTPConnection), {"allowed": allowed})
    tls = type("GuardedHTTPS", (_Guarded, HTTPSConnection), {"allowed": allowed})
    return {
        "http": type("GuardedPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("GuardedTLSPool", (HTTPSConnectionPool,), {"ConnectionCls": tls}),
    }


class GuardedAdapter(HTTPAdapter):
    """Mount it on a requests.Session: a connection to an address that is not allowed fails before a byte is sent."""

    def __init__(self, allowed: AllowedAddresses) -> None:
        self._allowed = allowed
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _pools(self._allowed)


def session(allowed: AllowedAddresses | None = None) -> requests.Session:
    """A requests session that calls allowed addresses only, without proxies or .netrc of the environment.

    Call it with `allow_redirects=False`. A refused address raises requests.ConnectionError naming why.
    """
    made = requests.Session()
    made.trust_env = False  # a proxy would be connected to instead, and would call what we refuse
    adapter = GuardedAdapter(configured() if allowed is None else allowed)
    made.mount("http://", adapter)
    made.mount("https://", adapter)
    return made
