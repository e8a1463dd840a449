"""Posts messages to Slack's incoming webhooks, and only to allowed hosts."""

from collections.abc import Iterable, Sequence
from urllib.parse import SplitResult

from chalicelib.adapters.mail.message import Clock, now_ms
from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.adapters.webhooks.allowed_hosts import AllowedHost, find_allowed_host, parse_allowed_host
from chalicelib.adapters.webhooks.http_post import TIMEOUT_S, HttpPoster, split_url
from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.notifications.delivery import SlackPost

DEFAULT_ALLOWED_HOSTS = ("hooks.slack.com",)
_HEADERS = {"Content-Type": "application/json; charset=utf-8"}


def check_url(url: str, allowed: Sequence[str] = DEFAULT_ALLOWED_HOSTS) -> None:
    """Raise `ValueError` with the reason if messages cannot be posted to `url`. Does not query DNS."""
    _parse_url(url, [parse_allowed_host(entry) for entry in allowed])


class SlackPoster:
    """Posts to webhooks of the allowed hosts: `host`, `host:port`, or `private:host:port` for a private address."""

    def __init__(
        self, allowed: Sequence[str] = DEFAULT_ALLOWED_HOSTS, timeout_s: float = TIMEOUT_S, clock: Clock = now_ms
    ) -> None:
        self._allowed = [parse_allowed_host(entry) for entry in allowed]
        self._http = HttpPoster(timeout_s, clock)

    def post(self, post: SlackPost) -> None:
        """Raises `NotDelivered`, `RateLimited`, or `Undeliverable` if a retry cannot succeed."""
        try:
            url, host = _parse_url(post.url, self._allowed)
        except ValueError as error:
            raise Undeliverable(str(error)) from error
        self._http.post(url, host, _HEADERS, post.json.encode("utf-8", "replace"))


def _parse_url(url: str, allowed: Iterable[AllowedHost]) -> tuple[SplitResult, AllowedHost]:
    """Raises `ValueError`. Its message never contains the path, because the path is the secret of the webhook."""
    parts = split_url(url)
    if parts.scheme != "https":
        raise ValueError("the URL does not begin with https://")
    host = find_allowed_host(parts, allowed)
    if host is None:
        raise ValueError(f"'{shorten_reason(parts.netloc)}' is not among the allowed hosts (SLACK_HOSTS)")
    return parts, host
