"""Posts to webhooks: real servers over TLS on loopback, well-behaved and not (row A-19)."""

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
from chalicelib.domain.errors import NotDelivered, Undeliverable
from tests.adapters.channels import servers, web
from tests.adapters.channels.conftest import context_for
from tests.adapters.channels.messages import NOW_MS, a_post

PATH = "/services/T000SECRET/B000SECRET/tokenSECRET"
"""Who knows it can post: no reason may name it."""

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.usefixtures("trusted")


def poster(port: int, host: str = "localhost", timeout_s: float = 20) -> SlackPoster:
    return SlackPoster([f"private:{host}:{port}"], timeout_s, clock=lambda: NOW_MS)


def refusal(script: servers.Script, tls: ssl.SSLContext | None, timeout_s: float = 20) -> NotDelivered:
    """Why a server that does as `script` says does not take a message."""
    with servers.scripted(script, tls) as port, pytest.raises(NotDelivered) as raised:
        poster(port, timeout_s=timeout_s).post(a_post(f"https://localhost:{port}{PATH}"))
    reason = str(raised.value)
    assert "SECRET" not in reason
    assert reason.isprintable()
    assert reason.startswith(f"localhost:{port} ")
    return raised.value


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_message_is_posted_as_it_was_written(authority: trustme.CA, host: str) -> None:
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
def test_any_2xx_is_success_even_if_the_rest_never_comes(tls: ssl.SSLContext, status: str) -> None:
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
        ("429 Too Many Requests", NotDelivered),
        ("500 Internal Server Error", NotDelivered),
        ("502 Bad Gateway", NotDelivered),
        ("503 Service Unavailable", NotDelivered),
        ("504 Gateway Timeout", NotDelivered),
    ],
)
def test_a_19_what_is_not_taken_is_known_with_slacks_own_reason(
    tls: ssl.SSLContext, status: str, expected: type[NotDelivered]
) -> None:
    why = refusal(web.answer(status, body=b"no_service\n"), tls)
    assert type(why) is expected
    assert str(why).endswith(f" answered {status[:3]}: no_service")


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
def test_what_slack_says_is_shown_short_printable_and_without_secrets(
    tls: ssl.SSLContext, body: bytes, shown: str
) -> None:
    why = refusal(web.answer("404 Not Found", body=body), tls)
    assert str(why).partition(" answered 404")[2] == shown


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
def test_a_19_a_server_that_is_too_busy_says_when_to_come_again(
    tls: ssl.SSLContext, retry_after: str, pause_s: float | None
) -> None:
    why = refusal(web.answer("429 Too Many Requests", f"Retry-After: {retry_after}"), tls)
    assert (type(why), why.retry_after_s) == (NotDelivered, pause_s)


def test_a_refusal_without_retry_after_leaves_the_pause_open(tls: ssl.SSLContext) -> None:
    assert refusal(web.answer("503 Service Unavailable"), tls).retry_after_s is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(tls: ssl.SSLContext, status: int) -> None:
    asked: list[str] = []

    def elsewhere(connection: socket, over: Event) -> None:
        asked.append("elsewhere")
        web.answer("200 OK")(connection, over)

    with servers.scripted(elsewhere, tls) as other:
        why = refusal(web.answer(f"{status} Moved", f"Location: https://localhost:{other}/"), tls)
    assert (type(why), asked) == (Undeliverable, [])
    assert str(why).endswith(f" answered {status}, but redirects are not followed")


def begin_answer(connection: socket, over: Event) -> None:
    web.send(b"HTTP/1.1 500 Oops\r\nX-Slow: ", then=servers.drip)(connection, over)


def endless_headers(connection: socket, over: Event) -> None:
    web.send(b"HTTP/1.1 100 Continue\r\n\r\n")(connection, over)
    while not over.is_set():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


BROKEN = {
    "says nothing": (servers.hang, 1, "did not answer in time"),
    "drips its first line": (servers.drip, 1, "did not answer in time"),
    "drips its headers": (begin_answer, 1, "did not answer in time"),
    "drips the body of a failure": (web.send(b"HTTP/1.1 500 Oops\r\n\r\n", servers.drip), 2, "answered 500: 2"),
    "closes": (servers.close, 20, ""),
    "closes after the request": (web.send(b""), 20, "broke off, or what it answered is not HTTP"),
    "breaks off in its headers": (web.send(b"HTTP/1.1 500"), 20, "answered 500"),
    "speaks something else": (web.send(b"220 mx ready\r\n"), 20, "broke off, or what it answered is not HTTP"),
    "talks without end": (endless_headers, 20, "cannot be reached: the answer is too long"),
}


@pytest.mark.parametrize(("script", "timeout_s", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_19_a_broken_server_is_left_alone_in_time(
    tls: ssl.SSLContext, script: servers.Script, timeout_s: float, reason: str
) -> None:
    began = monotonic()
    why = refusal(script, tls, timeout_s)
    assert (type(why), reason in str(why)) == (NotDelivered, True), str(why)
    assert monotonic() - began < 15


def test_a_dripping_refusal_is_still_a_refusal(tls: ssl.SSLContext) -> None:
    why = refusal(web.send(b"HTTP/1.1 404 No\r\n\r\n", servers.drip), tls, timeout_s=2)
    assert type(why) is Undeliverable


def test_a_server_that_does_not_encrypt_gets_nothing() -> None:
    assert "did not answer in time" in str(refusal(servers.hang, None, timeout_s=1))
    assert type(refusal(servers.say("HTTP/1.1 200 OK"), None)) is NotDelivered


def test_a_certificate_for_another_host_is_not_trusted(foreign_tls: ssl.SSLContext) -> None:
    why = refusal(web.answer("200 OK"), foreign_tls)
    assert (type(why), "has no valid certificate: Hostname mismatch" in str(why)) == (NotDelivered, True)


def test_a_certificate_of_an_unknown_authority_is_not_trusted() -> None:
    why = refusal(web.answer("200 OK"), context_for(trustme.CA(), "localhost"))
    assert (type(why), "has no valid certificate" in str(why)) == (NotDelivered, True)


def test_where_no_server_is_the_message_may_be_delivered_later() -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotDelivered, match="cannot be reached") as raised:
        poster(port).post(a_post(f"https://localhost:{port}{PATH}"))
    assert type(raised.value) is NotDelivered


def test_a_host_that_is_allowed_but_private_gets_nothing(tls: ssl.SSLContext) -> None:
    with servers.scripted(web.answer("200 OK"), tls) as port:
        public = SlackPoster([f"localhost:{port}"])
        with pytest.raises(Undeliverable, match="has an address that is not public"):
            public.post(a_post(f"https://localhost:{port}{PATH}"))


def test_a_name_is_looked_up_once_and_only_its_checked_addresses_are_used(tls: ssl.SSLContext) -> None:
    """In a process that notices, as there is no going back from noticing."""
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
