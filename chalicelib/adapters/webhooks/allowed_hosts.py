"""The hosts and IP addresses that webhooks may connect to."""

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Thread
from typing import Any
from urllib.parse import SplitResult, urlsplit

from chalicelib.adapters.webhooks.io_deadline import Deadline
from chalicelib.domain.errors import Undeliverable

HTTP_PORT, HTTPS_PORT = 80, 443
PRIVATE_PREFIX = "private:"
_UNICAST6 = ipaddress.ip_network("2000::/3")
_NOT_PUBLIC = [
    ipaddress.ip_network(text) for text in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20")
]
"""Networks that some Python versions consider public, but that are tunnels (Teredo, 6to4) or not routed."""
_PRIVATE_NETWORKS = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "::1/128", "fc00::/7")
]
"""Private networks. Link-local addresses are excluded, because clouds serve credentials there."""

SocketAddress = tuple[socket.AddressFamily, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """A host that webhooks may connect to. If `is_private`, its address may be in a private network."""

    host: str
    port: int = HTTPS_PORT
    is_private: bool = False
    is_tls: bool = True

    @property
    def name(self) -> str:
        """Host and port as in a URL, without the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (HTTPS_PORT if self.is_tls else HTTP_PORT) else f"{host}:{self.port}"


def parse_allowed_host(entry: str) -> AllowedHost:
    """Parse `host`, `host:port` or `private:host:port`. Raises `ValueError`."""
    is_private = entry.startswith(PRIVATE_PREFIX)
    name = entry.removeprefix(PRIVATE_PREFIX)
    try:
        parts = urlsplit(f"//{name}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port == 0 or parts.netloc != name or "@" in name or re.search(r"[^!-~]", name):
        raise ValueError(f"'{entry}' is not a host such as 'hooks.slack.com' or 'private:relay:8443'")
    return AllowedHost(host, port or HTTPS_PORT, is_private)


def find_allowed_host(url: SplitResult, allowed: Iterable[AllowedHost]) -> AllowedHost | None:
    """The allowed host with exactly the host and port of `url`, if any."""
    host_and_port = (url.hostname, HTTPS_PORT if url.port is None else url.port)
    return next((host for host in allowed if (host.host, host.port) == host_and_port), None)


def resolve(host: AllowedHost, deadline: Deadline) -> list[SocketAddress]:
    """Look up the addresses of the host. Raises `Undeliverable` if one of them is not permitted.

    The caller must connect to these addresses and not resolve the name again, since DNS may answer differently.
    """
    addresses = _look_up(host, deadline)
    for _, address in addresses:
        if not is_permitted(address[0], host.is_private):
            raise Undeliverable(f"{host.name} has an address that is not public, so nothing is sent there")
    return addresses


def is_permitted(address: str, allow_private: bool) -> bool:
    """Whether the address is public, or private if `allow_private`. IPv6 addresses that embed IPv4 never are."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if allow_private and any(ip in network for network in _PRIVATE_NETWORKS):
        return True
    if not ip.is_global or ip.is_private or ip.is_reserved or ip.is_multicast:
        return False
    return (ip.version == 4 or ip in _UNICAST6) and not any(ip in network for network in _NOT_PUBLIC)


def _look_up(host: AllowedHost, deadline: Deadline) -> list[SocketAddress]:
    """Query DNS in a separate thread, because `getaddrinfo` has no timeout."""
    addresses: list[SocketAddress] = []
    errors: list[OSError | UnicodeError] = []

    def look_up() -> None:
        try:
            entries = socket.getaddrinfo(host.host, host.port, type=socket.SOCK_STREAM)
            addresses.extend((entry[0], entry[4]) for entry in entries)
        except (OSError, UnicodeError) as error:
            errors.append(error)

    thread = Thread(target=look_up, name="resolve a host", daemon=True)
    thread.start()
    thread.join(deadline.remaining_s())
    if not addresses:
        raise OSError("its name cannot be resolved") from next(iter(errors), None)
    return addresses
