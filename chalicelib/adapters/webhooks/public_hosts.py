"""The hosts that users may choose freely: all public ones, and those that the operator lists in WEBHOOK_HOSTS."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import SplitResult, urlsplit

from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.adapters.webhooks.allowed_hosts import (
    HTTP_PORT,
    HTTPS_PORT,
    PRIVATE_PREFIX,
    AllowedHost,
    is_permitted,
    parse_allowed_host,
)

_LOCAL_NAMES = ("localhost", "internal", "local", "localdomain")
"""Top-level domains of private networks. Their addresses are also checked before a connection."""


@dataclass(frozen=True, slots=True)
class PublicHosts:
    """The rules for hosts. A listed host may have a private address and needs no encryption."""

    listed: frozenset[tuple[str, int | None]] = frozenset()
    """Host and port. No port: all ports."""

    @classmethod
    def parse(cls, entries: Sequence[str]) -> Self:
        """Parse entries `host` and `host:port`. Raises `ValueError`."""
        hosts = (parse_allowed_host(entry).host for entry in entries)
        # A listed host is private anyway, so the prefix of SLACK_HOSTS changes nothing.
        ports = (urlsplit(f"//{entry.removeprefix(PRIVATE_PREFIX)}").port for entry in entries)
        return cls(frozenset(zip(hosts, ports, strict=True)))

    def is_listed(self, host: str, port: int) -> bool:
        return not self.listed.isdisjoint({(host, port), (host, None)})

    def find(self, url: SplitResult) -> AllowedHost:
        """The host of a URL. Raises `ValueError` if nothing may be sent to it. Does not query DNS."""
        if url.scheme not in ("http", "https"):
            raise ValueError("the URL does not begin with https://")
        is_tls = url.scheme == "https"
        return self.check(url.hostname or "", url.port, is_tls)

    def check(self, host: str, port: int | None, is_tls: bool) -> AllowedHost:
        """The host, or `ValueError` if nothing may be sent to it. Does not query DNS."""
        if not host or port == 0:
            raise ValueError("the URL has a malformed host or port")
        port = port or (HTTPS_PORT if is_tls else HTTP_PORT)
        is_listed = self.is_listed(host, port)
        checked = AllowedHost(host, port, is_listed, is_tls)
        if not is_listed and is_evidently_private(host):
            name = shorten_reason(checked.name)
            raise ValueError(f"'{name}' is not a public host, and not among the allowed hosts (WEBHOOK_HOSTS)")
        if not is_listed and not is_tls:
            raise ValueError("the URL is not encrypted, which is allowed only for hosts in WEBHOOK_HOSTS; use https://")
        return checked


def is_evidently_private(host: str) -> bool:
    """Whether the host is a private address, or a name that can only have one."""
    try:
        return not is_permitted(host, allow_private=False)
    except ValueError:
        *_, top = host.rstrip(".").split(".")
        # A last label that is a number makes the name an address in another notation, such as 0x7f.1.
        return "." not in host.rstrip(".") or top in _LOCAL_NAMES or top[:1].isdigit()
