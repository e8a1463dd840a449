"""Which hosts may be talked to, and at which of their addresses."""

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Thread
from typing import Any
from urllib.parse import SplitResult, urlsplit

from chalicelib.adapters.slack.io_deadline import Deadline
from chalicelib.domain.errors import Undeliverable

HTTPS = 443
_PRIVATE = "private:"
_UNICAST6 = ipaddress.ip_network("2000::/3")
_NOT_PUBLIC = [
    ipaddress.ip_network(text) for text in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20")
]
"""Looks public to some versions of Python, but leads elsewhere (Teredo, 6to4) or nowhere."""
_PRIVATE_NETWORKS = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "::1/128", "fc00::/7")
]
"""What people number their own networks with. Link-local is not here: clouds keep credentials there."""

SocketAddress = tuple[socket.AddressFamily, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """A host that may be talked to; if `is_private`, also where its address is not public."""

    host: str
    port: int = HTTPS
    is_private: bool = False

    @property
    def name(self) -> str:
        """How it is written in a URL: without the port if that is the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS else f"{host}:{self.port}"


def allowed_host(entry: str) -> AllowedHost:
    """The host of an entry `host`, `host:port` or `private:host:port`; ValueError if it is none of these."""
    is_private = entry.startswith(_PRIVATE)
    name = entry.removeprefix(_PRIVATE)
    try:
        parts = urlsplit(f"//{name}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port == 0 or parts.netloc != name or "@" in name or re.search(r"[^!-~]", name):
        raise ValueError(f"'{entry}' is not a host such as 'hooks.slack.com' or 'private:relay:8443'")
    return AllowedHost(host, port or HTTPS, is_private)


def destination(url: SplitResult, allowed: Iterable[AllowedHost]) -> AllowedHost | None:
    """The allowed host that `url` names, exactly and by its port; None if there is none."""
    wanted = (url.hostname, HTTPS if url.port is None else url.port)
    return next((host for host in allowed if (host.host, host.port) == wanted), None)


def resolve(host: AllowedHost, deadline: Deadline) -> list[SocketAddress]:
    """The host's addresses, asked for once and all of them checked: `Undeliverable` if one is not permitted."""
    found = _looked_up(host, deadline)
    for _, address in found:
        if not is_permitted(address[0], host.is_private):
            raise Undeliverable(f"{host.name} has an address that is not public, so nothing is sent there")
    return found


def is_permitted(address: str, with_private: bool) -> bool:
    """Tell whether `address` may be talked to: if it is public, or in a private network and `with_private`.

    An IPv4 address within an IPv6 one is never permitted, whatever it is.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if with_private and any(ip in network for network in _PRIVATE_NETWORKS):
        return True
    if not ip.is_global or ip.is_private or ip.is_reserved or ip.is_multicast:
        return False
    return (ip.version == 4 or ip in _UNICAST6) and not any(ip in network for network in _NOT_PUBLIC)


def _looked_up(host: AllowedHost, deadline: Deadline) -> list[SocketAddress]:
    """What DNS says; in a thread, as that cannot be given a limit of time."""
    found: list[SocketAddress] = []
    failures: list[OSError | UnicodeError] = []

    def look_up() -> None:
        try:
            entries = socket.getaddrinfo(host.host, host.port, type=socket.SOCK_STREAM)
            found.extend((entry[0], entry[4]) for entry in entries)
        except (OSError, UnicodeError) as failure:
            failures.append(failure)

    thread = Thread(target=look_up, name="look up a host", daemon=True)
    thread.start()
    thread.join(deadline.left_s())
    if not found:
        raise OSError("its name cannot be looked up") from next(iter(failures), None)
    return found
