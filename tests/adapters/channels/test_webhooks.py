"""CloudEvents to webhooks on loopback: signatures, statuses, hosts. Broken servers are in `test_slack`."""

import json
import ssl
from socket import socket
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from chalicelib.adapters.mail.message import now_ms
from chalicelib.adapters.webhooks.allowed_hosts import AllowedHost
from chalicelib.adapters.webhooks.cloud_event_post import WebhookPoster, check_webhook_url
from chalicelib.adapters.webhooks.http_post import HttpPoster
from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable
from chalicelib.domain.notifications.delivery import WebhookPost
from chalicelib.domain.notifications.webhook_signature import format_secret
from tests.adapters.channels import servers, web

SECRET = format_secret(b"0123456789abcdef0123456789abcdef")
PATH = "/hooks/tokenSECRET"
BODY = '{"specversion":"1.0","data":{"text":"Fertig ✓"}}'

pytestmark = pytest.mark.usefixtures("trusted")


def a_webhook(url: str, secret: str = SECRET) -> WebhookPost:
    return WebhookPost("1.7.1/ops", url, secret, BODY)


def post_error(script: servers.Script) -> NotDelivered:
    """Post to a server that runs `script`, and return the error."""
    with servers.scripted(script) as port, pytest.raises(NotDelivered) as raised:
        WebhookPoster([f"127.0.0.1:{port}"]).post(a_webhook(f"http://127.0.0.1:{port}{PATH}"))
    assert "SECRET" not in str(raised.value)
    assert SECRET not in str(raised.value)
    return raised.value


def received(*, tls: ssl.SSLContext | None = None) -> tuple[str, dict[str, str], bytes]:
    """Post to a server and return the request that it received."""
    requests = []

    def script(connection: socket, _: Event) -> None:
        requests.append(web.request_of(connection))
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with servers.scripted(script, tls) as port:
        scheme = "http" if tls is None else "https"
        WebhookPoster([f"localhost:{port}"]).post(a_webhook(f"{scheme}://localhost:{port}{PATH}?a=1"))
    ((first, headers, body),) = requests
    return first, headers, body


def test_post_is_verified_by_standard_webhooks() -> None:
    first, headers, body = received()
    assert (first, body) == (f"POST {PATH}?a=1 HTTP/1.1", BODY.encode())
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert headers["webhook-id"] == "1:7:1/ops"
    assert abs(int(headers["webhook-timestamp"]) - now_ms() / 1000) < 60
    assert Webhook(SECRET).verify(body, headers) == json.loads(BODY)


@pytest.mark.parametrize("change", [{"webhook-id": "1:7:2/ops"}, {"webhook-timestamp": "1700000000"}, {"body": "{}"}])
def test_changed_post_is_refused_by_standard_webhooks(change: dict[str, str]) -> None:
    _, headers, body = received()
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(change.pop("body", body), headers | change)


def test_post_uses_tls_for_https(tls: ssl.SSLContext) -> None:
    _, headers, body = received(tls=tls)
    assert Webhook(SECRET).verify(body, headers) == json.loads(BODY)


@pytest.mark.parametrize(
    ("status", "headers", "expected", "retry_after_s"),
    [
        ("400 Bad Request", (), Undeliverable, None),
        ("401 Unauthorized", (), Undeliverable, None),
        ("410 Gone", (), Undeliverable, None),
        ("408 Request Timeout", (), NotDelivered, None),
        ("429 Too Many Requests", (), RateLimited, None),
        ("429 Too Many Requests", ("Retry-After: 30",), RateLimited, 30),
        ("503 Service Unavailable", ("Retry-After: 7",), RateLimited, 7),
        ("503 Service Unavailable", (), NotDelivered, None),
        ("500 Internal Server Error", ("Retry-After: 7",), NotDelivered, 7),
        ("302 Found", ("Location: https://elsewhere.example/",), Undeliverable, None),
    ],
)
def test_post_with_error_status_raises(
    status: str, headers: tuple[str, ...], expected: type[NotDelivered], retry_after_s: float | None
) -> None:
    error = post_error(web.answer(status, *headers, body=b"no tokenSECRET"))
    assert (type(error), error.retry_after_s) == (expected, retry_after_s)


def test_post_to_name_with_private_address_is_undeliverable(tls: ssl.SSLContext) -> None:
    """A name that looks public may have a private address. The poster checks addresses, whatever the name."""
    with (
        servers.scripted(web.answer("200 OK"), tls) as port,
        pytest.raises(Undeliverable, match="has an address that is not public"),
    ):
        HttpPoster().post(urlsplit(f"https://localhost:{port}/"), AllowedHost("localhost", port), {}, b"")


def test_post_with_invalid_secret_is_undeliverable() -> None:
    with pytest.raises(Undeliverable, match=r"^config.secret: "):
        WebhookPoster(["127.0.0.1"]).post(a_webhook("http://127.0.0.1:9/", "whsec_short"))


REFUSED: dict[str, str] = {
    "": "No destination URL",
    "ftp://example.org/x": "the URL does not begin with https://",
    "example.org/x": "the URL does not begin with https://",
    "http://example.org/x": "the URL is not encrypted",
    "https://user:pass@example.org/x": "the URL contains a user or a password",
    "https://example.org/a b": "a character that is not allowed in URLs",
    "https:///x": "has a malformed host or port",
    "https://example.org:0/x": "has a malformed host or port",
    "https://localhost/x": "'localhost' is not a public host",
    "https://relay/x": "'relay' is not a public host",
    "https://relay.internal/x": "'relay.internal' is not a public host",
    "https://127.0.0.1/x": "'127.0.0.1' is not a public host",
    "https://127.1/x": "'127.1' is not a public host",
    "https://2130706433/x": "'2130706433' is not a public host",
    "https://0x7f.0.0.1/x": "'0x7f.0.0.1' is not a public host",
    "https://0177.0.0.1/x": "'0177.0.0.1' is not a public host",
    "https://10.0.0.1/x": "'10.0.0.1' is not a public host",
    "https://169.254.169.254/x": "'169.254.169.254' is not a public host",
    "https://[::1]/x": "'[::1]' is not a public host",
    "https://[::ffff:127.0.0.1]/x": "'[::ffff:127.0.0.1]' is not a public host",
}


@pytest.mark.parametrize(("url", "reason"), REFUSED.items())
def test_invalid_url_is_refused_by_check_and_post(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^(No destination|the URL|'.*' is not a public host)") as checked:
        check_webhook_url(url)
    with pytest.raises(Undeliverable) as used:
        WebhookPoster().post(a_webhook(url))
    assert (str(checked.value), reason in str(checked.value)) == (str(used.value), True)


@pytest.mark.parametrize(
    ("url", "listed"),
    [
        ("https://example.org/x", []),
        ("https://example.org:8443/x", []),
        ("https://8.8.8.8/x", []),
        ("http://relay:8080/x", ["relay:8080"]),
        ("http://relay:8080/x", ["relay"]),
        ("https://10.0.0.1/x", ["10.0.0.1"]),
        ("https://10.0.0.1:8443/x", ["private:10.0.0.1:8443"]),
        ("http://[::1]:8080/x", ["[::1]"]),
    ],
)
def test_check_accepts_public_and_listed_hosts(url: str, listed: list[str]) -> None:
    check_webhook_url(url, listed)


@pytest.mark.parametrize("url", ["http://relay:8081/x", "https://relay2:8080/x", "http://relay/x"])
def test_listed_port_admits_no_other_port_or_host(url: str) -> None:
    with pytest.raises(ValueError, match="not a public host"):
        check_webhook_url(url, ["relay:8080"])


def test_webhook_repr_hides_url_and_secret() -> None:
    values: Any = a_webhook(f"https://example.org{PATH}")
    assert "SECRET" not in repr(values)
    assert SECRET not in repr(values)
