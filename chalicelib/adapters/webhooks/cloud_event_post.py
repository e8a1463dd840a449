"""Posts CloudEvents to webhooks, with the signature of Standard Webhooks."""

from collections.abc import Sequence

from chalicelib.adapters.mail.message import Clock, now_ms
from chalicelib.adapters.webhooks.http_post import TIMEOUT_S, HttpPoster, split_url
from chalicelib.adapters.webhooks.public_hosts import PublicHosts
from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.notifications.cloud_event import CONTENT_TYPE
from chalicelib.domain.notifications.delivery import WebhookPost
from chalicelib.domain.notifications.webhook_signature import signature_headers


def check_webhook_url(url: str, listed: Sequence[str] = ()) -> None:
    """Raise `ValueError` with the reason if events cannot be posted to `url`. Does not query DNS."""
    PublicHosts.parse(listed).find(split_url(url))


class WebhookPoster:
    """Posts to public hosts, and to the hosts `listed` as `host` or `host:port`."""

    def __init__(self, listed: Sequence[str] = (), timeout_s: float = TIMEOUT_S, clock: Clock = now_ms) -> None:
        self._hosts = PublicHosts.parse(listed)
        self._http = HttpPoster(timeout_s, clock)
        self._clock = clock

    def post(self, post: WebhookPost) -> None:
        """Raises `NotDelivered`, `RateLimited`, or `Undeliverable` if a retry cannot succeed.

        The timestamp in the signature is that of this try.
        """
        body = post.json.encode("utf-8", "replace")
        try:
            url = split_url(post.url)
            host = self._hosts.find(url)
            signature = signature_headers(post.secret, post.delivery, self._clock() // 1000, body)
        except ValueError as error:
            raise Undeliverable(str(error)) from error
        self._http.post(url, host, {"Content-Type": f"{CONTENT_TYPE}; charset=utf-8", **signature}, body)
