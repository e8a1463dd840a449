"""The secrets in the configuration of an observer. Clients can write them but not read them.

A response has a mask instead. A client that sends the mask back keeps the stored secret, so it can change the rest of
a configuration without knowing the secret.
"""

from collections.abc import Mapping
from typing import Any

from chalicelib.domain.notifications.delivery import Channel

MASK = "********"
NOT_IN_TEMPLATES = frozenset({"url", "urls", "secret"})
"""Members of `config` that templates cannot use."""

Config = Mapping[str, Any]


def masked(channel: Channel, config: Config) -> dict[str, Any]:
    """The configuration as clients receive it."""
    match channel, config:
        case "webhook", {"secret": _}:
            return {**config, "secret": MASK}
        case "apprise", {"urls": urls}:
            return {**config, "urls": [_url_mask(url, n) for n, url in enumerate(apprise_urls(urls), start=1)]}
        case _:
            return dict(config)


def with_stored_secrets(channel: Channel, config: Config, stored: Config) -> dict[str, Any]:
    """The configuration, with the secrets of `stored` where it has none or a mask. Raises `ValueError`.

    `stored` is the previous configuration of the same observer on the same channel, or empty.
    """
    filled = dict(config)
    if channel == "webhook" and filled.get("secret") in (None, MASK):
        filled.pop("secret", None)
        if "secret" in stored:
            filled["secret"] = stored["secret"]
    if channel == "apprise":
        stored_urls = apprise_urls(stored.get("urls"))
        by_mask = {_url_mask(url, number): url for number, url in enumerate(stored_urls, start=1)}
        filled["urls"] = [
            _stored_url(url, by_mask) if MASK in url else url for url in apprise_urls(filled.get("urls", stored_urls))
        ]
    return filled


def apprise_urls(value: object) -> list[str]:
    """The Apprise URLs of a configuration, which has a list of them or a single one."""
    match value:
        case str(url) if url.strip():
            return [url.strip()]
        case [*urls]:
            return [str(url).strip() for url in urls]
        case _:
            return []


def url_scheme(url: str) -> str:
    """The part before `://`, which names the service of an Apprise URL."""
    scheme, separator, _ = url.partition("://")
    return scheme.lower()[:40] if separator else ""


def _url_mask(url: str, number: int) -> str:
    """Names the service and the position, so that masks can be told apart, moved and removed."""
    return f"{url_scheme(url)}://{MASK}/{number}"


def _stored_url(mask: str, by_mask: Mapping[str, str]) -> str:
    if mask not in by_mask:
        raise ValueError(f"config.urls: '{mask[:80]}' stands for no stored URL; write the URL itself")
    return by_mask[mask]
