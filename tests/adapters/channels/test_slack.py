"""Posts to webhooks on TLS servers on loopback, working and broken ones (row A-19)."""

import json
import ssl
import subprocess
import sys
from pathlib import Path
from socket import create_server, socket
from threading import Event
from time import monotonic

import pytest
import trustme

from chalicelib.adapters.slack.webhook import SlackPoster
from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable
from tests.adapters.channels import servers, web
from tests.adapters.channels.conftest import context_for
from tests.adapters.channels.messages import NOW_MS, a_post

PATH = "/services/T000SECRET/B000SECRET/tokenSECRET"
"""The secret of the webhook: no error message may contain it."""

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.usefixtures("trusted")


def poster(port: int, host: str = "localhost", timeout_s: float = 20) -> SlackPoster:
    return SlackPoster([f"private:{host}:{port}"], timeout_s, clock=lambda: NOW_MS)


def post_error(script: servers.Script, tls: ssl.SSLContext | None, timeout_s: float = 20) -> NotDelivered:
    """Post to a server that runs `script`, and return the error."""
    with servers.scripted(script, tls) as port, pytest.raises(NotDelivered) as raised:
        poster(port, timeout_s=timeout_s).post(a_post(f"https://localhost:{port}{PATH}"))
    reason = str(raised.value)
    assert "SECRET" not in reason
    assert reason.isprintable()
    assert reason.startswith(f"localhost:{port} ")
    return raised.value


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_post_sends_request_unchanged(authority: trustme.CA, host: str) -> None:
    requests, names = [], []
    context = context_for(authority, host)
    context.sni_callback = lambda _, name, __: names.append(name)

    def script(connection: socket, _: Event) -> None:
        requests.append(web.request_of(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with servers.scripted(script, context) as port:
        url = f"https://{host}:{port}{PATH}?a=1#part"
        poster(port, host).post(a_post(url, json='{"text":"Fertig ✓"}'))
    ((first, headers, body),) = requests
    assert (first, body) == (f"POST {PATH}?a=1 HTTP/1.1", '{"text":"Fertig ✓"}'.encode())
    assert headers["host"] == f"{host}:{port}"
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert names == ["localhost" if host == "localhost" else None]


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "202 Accepted", "204 No Content"])
def test_post_with_2xx_succeeds_without_reading_body(tls: ssl.SSLContext, status: str) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Length: 1000000\r\n\r\n".encode()
    with servers.scripted(web.send(head, then=servers.hang), tls) as port:
        poster(port).post(a_post(f"https://localhost:{port}{PATH}"))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("400 Bad Request", Undeliverable),
        ("401 Unauthorized", Undeliverable),
        ("403 Forbidden", Undeliverable),
        ("404 Not Found", Undeliverable),
        ("410 Gone", Undeliverable),
        ("413 Content Too Large", Undeliverable),
        ("408 Request Timeout", NotDelivered),
        ("429 Too Many Requests", RateLimited),
        ("500 Internal Server Error", NotDelivered),
        ("502 Bad Gateway", NotDelivered),
        ("503 Service Unavailable", NotDelivered),
        ("504 Gateway Timeout", NotDelivered),
    ],
)
def test_post_with_error_status_raises_with_slacks_reason(
    tls: ssl.SSLContext, status: str, expected: type[NotDelivered]
) -> None:
    error = post_error(web.answer(status, body=b"no_service\n"), tls)
    assert type(error) is expected
    assert str(error).endswith(f" answered {status[:3]}: no_service")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", ""),
        (b" \r\n", ""),
        (b"\x1b[31mred\0\r\nSet-Cookie: a", ": [31mred Set-Cookie: a"),
        (b"\xff\xfe", ": \ufffd\ufffd"),
        (b"x" * 1_000_000, ": " + "x" * 199 + "…"),
        (f"{PATH} is not here, tokenSECRET neither".encode(), ": … is not here, … neither"),
    ],
)
def test_post_error_text_is_short_printable_and_without_secrets(tls: ssl.SSLContext, body: bytes, shown: str) -> None:
    error = post_error(web.answer("404 Not Found", body=body), tls)
    assert str(error).partition(" answered 404")[2] == shown


@pytest.mark.parametrize(
    ("retry_after", "pause_s"),
    [
        ("30", 30),
        (" 0 ", 0),
        ("86400", 3600),
        ("9" * 40, 3600),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60),
        ("Tue, 14 Nov 2023 21:00:00 GMT", 0),
        ("Tue, 14 Nov 2033 21:00:00 GMT", 3600),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("Tue, 99 Nov 2023 22:14:20 GMT", None),
    ],
)
def test_post_with_429_parses_retry_after(tls: ssl.SSLContext, retry_after: str, pause_s: float | None) -> None:
    error = post_error(web.answer("429 Too Many Requests", f"Retry-After: {retry_after}"), tls)
    assert (type(error), error.retry_after_s) == (RateLimited, pause_s)


def test_post_with_503_without_retry_after_has_none(tls: ssl.SSLContext) -> None:
    assert post_error(web.answer("503 Service Unavailable"), tls).retry_after_s is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_post_with_redirect_is_not_followed(tls: ssl.SSLContext, status: int) -> None:
    asked: list[str] = []

    def elsewhere(connection: socket, over: Event) -> None:
        asked.append("elsewhere")
        web.answer("200 OK")(connection, over)

    with servers.scripted(elsewhere, tls) as other:
        error = post_error(web.answer(f"{status} Moved", f"Location: https://localhost:{other}/"), tls)
    assert (type(error), asked) == (Undeliverable, [])
    assert str(error).endswith(f" answered {status}, but redirects are not followed")


def begin_answer(connection: socket, over: Event) -> None:
    web.send(b"HTTP/1.1 500 Oops\r\nX-Slow: ", then=servers.drip)(connection, over)


def endless_headers(connection: socket, over: Event) -> None:
    web.send(b"HTTP/1.1 100 Continue\r\n\r\n")(connection, over)
    while not over.is_set():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


BROKEN = {
    "sends nothing": (servers.hang, 1, "did not answer in time"),
    "drips its first line": (servers.drip, 1, "did not answer in time"),
    "drips its headers": (begin_answer, 1, "did not answer in time"),
    "drips the body of a failure": (web.send(b"HTTP/1.1 500 Oops\r\n\r\n", servers.drip), 2, "answered 500: 2"),
    "closes": (servers.close, 20, ""),
    "closes after the request": (web.send(b""), 20, "closed the connection or did not answer with HTTP"),
    "closes within its headers": (web.send(b"HTTP/1.1 500"), 20, "answered 500"),
    "speaks another protocol": (web.send(b"220 mx ready\r\n"), 20, "closed the connection or did not answer with HTTP"),
    "sends without end": (endless_headers, 20, "cannot be reached: the response is too long"),
}


@pytest.mark.parametrize(("script", "timeout_s", "reason"), BROKEN.values(), ids=BROKEN)
def test_post_to_broken_server_fails_in_time(
    tls: ssl.SSLContext, script: servers.Script, timeout_s: float, reason: str
) -> None:
    began = monotonic()
    error = post_error(script, tls, timeout_s)
    assert (type(error), reason in str(error)) == (NotDelivered, True), str(error)
    assert monotonic() - began < 15


def test_post_with_slow_404_body_is_undeliverable(tls: ssl.SSLContext) -> None:
    error = post_error(web.send(b"HTTP/1.1 404 No\r\n\r\n", servers.drip), tls, timeout_s=2)
    assert type(error) is Undeliverable


def test_post_to_server_without_tls_fails() -> None:
    assert "did not answer in time" in str(post_error(servers.hang, None, timeout_s=1))
    assert type(post_error(servers.say("HTTP/1.1 200 OK"), None)) is NotDelivered


def test_post_with_certificate_of_another_host_fails(foreign_tls: ssl.SSLContext) -> None:
    error = post_error(web.answer("200 OK"), foreign_tls)
    assert (type(error), "has no valid certificate: Hostname mismatch" in str(error)) == (NotDelivered, True)


def test_post_with_certificate_of_unknown_ca_fails() -> None:
    error = post_error(web.answer("200 OK"), context_for(trustme.CA(), "localhost"))
    assert (type(error), "has no valid certificate" in str(error)) == (NotDelivered, True)


def test_post_without_server_is_retryable() -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotDelivered, match="cannot be reached") as raised:
        poster(port).post(a_post(f"https://localhost:{port}{PATH}"))
    assert type(raised.value) is NotDelivered


def test_post_to_allowed_host_with_private_address_fails(tls: ssl.SSLContext) -> None:
    with servers.scripted(web.answer("200 OK"), tls) as port:
        public = SlackPoster([f"localhost:{port}"])
        with pytest.raises(Undeliverable, match="has an address that is not public"):
            public.post(a_post(f"https://localhost:{port}{PATH}"))


def test_post_resolves_once_and_uses_checked_addresses(tls: ssl.SSLContext) -> None:
    """Runs in a subprocess, because an audit hook cannot be removed."""
    script = f"""
import json, socket, sys
noticed = []
def notice(event, args):
    if event == "socket.getaddrinfo":
        noticed.append(args[0])
    if event == "socket.connect":
        noticed.append(args[1][0])
sys.addaudithook(notice)
from chalicelib.adapters.slack.webhook import SlackPoster
from chalicelib.domain.notifications.delivery import SlackPost
port = sys.argv[1]
SlackPoster([f"private:localhost:{{port}}"]).post(SlackPost("1", f"https://localhost:{{port}}{PATH}", "{{}}"))
print(json.dumps(noticed))
"""
    with servers.scripted(web.answer("200 OK"), tls) as port:
        command = [sys.executable, "-c", script, str(port)]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert [name for name in json.loads(done.stdout) if name not in ("127.0.0.1", "::1")] == ["localhost"]


def test_post_error_omits_path_parts_of_six_characters(tls: ssl.SSLContext) -> None:
    with (
        servers.scripted(web.answer("404 Not Found", body=b"unknown webhook a1b2c3 of T1T2T3"), tls) as port,
        pytest.raises(Undeliverable) as raised,
    ):
        poster(port).post(a_post(f"https://localhost:{port}/services/T1T2T3/a1b2c3"))
    assert str(raised.value).endswith(" answered 404: unknown webhook … of …")
