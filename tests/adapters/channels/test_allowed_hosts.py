"""Allowed webhook hosts and their addresses."""

import pytest

from chalicelib.adapters.webhooks.allowed_hosts import AllowedHost, is_permitted, parse_allowed_host, resolve
from chalicelib.adapters.webhooks.io_deadline import Deadline
from chalicelib.domain.errors import Undeliverable

PUBLIC = ["8.8.8.8", "3.5.140.2", "2606:4700::1111", "2a00:1450:4001:830::200e"]
OWN_NETWORK = ["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "127.0.0.1", "127.8.8.8", "::1", "fd00::1"]
NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::8.8.8.8",
    "::ffff:8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::8.8.8.8",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::1",
    "100::1",
    "2001:0:1::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize(
    ("address", "permitted", "if_private"),
    [
        *[(address, True, True) for address in PUBLIC],
        *[(address, False, True) for address in OWN_NETWORK],
        *[(address, False, False) for address in NEVER],
    ],
)
def test_is_permitted_allows_public_and_optionally_private(address: str, permitted: bool, if_private: bool) -> None:
    assert (is_permitted(address, allow_private=False), is_permitted(address, allow_private=True)) == (
        permitted,
        if_private,
    )


@pytest.mark.parametrize(
    ("entry", "host"),
    [
        ("hooks.slack.com", AllowedHost("hooks.slack.com")),
        ("Hooks.Slack.com:443", AllowedHost("hooks.slack.com")),
        ("relay.example:8443", AllowedHost("relay.example", 8443)),
        ("private:relay:8443", AllowedHost("relay", 8443, is_private=True)),
        ("private:relay", AllowedHost("relay", 443, is_private=True)),
        ("private:[::1]:8443", AllowedHost("::1", 8443, is_private=True)),
    ],
)
def test_parse_allowed_host_returns_host_and_port(entry: str, host: AllowedHost) -> None:
    assert parse_allowed_host(entry) == host


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "private:",
        ":443",
        "a:b",
        "a:0",
        "a:99999",
        "https://a",
        "a/b",
        "u@a",
        "a b",
        "a?b",
        "a#b",
        "[::1",
        "ä",
        "a\n",
    ],
)
def test_parse_allowed_host_with_invalid_entry_raises(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a host such as "):
        parse_allowed_host(entry)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "::1"])
def test_resolve_private_host_needs_private_entry(host: str) -> None:
    with pytest.raises(Undeliverable, match="has an address that is not public, so nothing is sent there"):
        resolve(AllowedHost(host), Deadline(30, 30))
    assert resolve(AllowedHost(host, is_private=True), Deadline(30, 30)) != []


def test_resolve_unknown_name_raises_os_error() -> None:
    with pytest.raises(OSError, match="its name cannot be resolved"):
        resolve(AllowedHost("nobody.invalid"), Deadline(30, 30))
    with pytest.raises(OSError, match="its name cannot be resolved"):
        resolve(AllowedHost("a..b"), Deadline(30, 30))
