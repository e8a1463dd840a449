"""HostileRequest requests as bytes, with their allowed statuses. The same seed generates the same requests.

Invalid JSON and parameters are in `tests/http/invalid_appends.py` and `invalid_queries.py`.
"""

import gzip
import json
import random
import re
import socket
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from itertools import chain
from urllib.parse import quote

import app
from infra.server.http.protocol import MAX_BODY_BYTES, MAX_HEAD_BYTES
from tests.server.client_group import ReceivedResponse, parse_responses

RESPONSE_TIMEOUT_S = 15.0
MANY = 10_000

BAD = frozenset({400})
TOO_LARGE = frozenset({400, 413})
NOT_HTTP = frozenset({400, 431, 501, 505})
"""Statuses for bytes that are not an HTTP request. The connection is closed."""
HARMLESS = frozenset({200, 201, 304, 400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 431})
"""Statuses of requests that were processed or refused."""

SEGMENTS = {
    "dots": "..",
    "dots and slashes": "../../../../etc/passwd",
    "encoded slashes": "..%2F..%2F..%2F..%2Fetc%2Fpasswd",
    "slashes encoded twice": "..%252F..%252Fapp.py",
    "encoded dots": "%2e%2e%2fapp.py",
    "backslashes": "..\\..\\etc\\passwd",
    "encoded backslashes": "..%5C..%5Capp.py",
    "an absolute path": "%2Fetc%2Fpasswd",
    "a drive": "C:%5CWindows%5Cwin.ini",
    "a zero": "a%00b",
    "a zero behind a name": "index.html%00.js",
    "a newline": "a%0D%0AX-Injected:%20yes%0D%0A",
    "invalid UTF-8": "%FF%FE",
    "an overlong slash": "..%C0%AF..%C0%AFapp.py",
    "a surrogate": "%ED%A0%80",
    "an incomplete escape": "%2",
    "an invalid escape": "%zz",
    "text direction controls": quote("\u202eevil\u2066"),
    "markup": "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    "a template": "%7B%7B7*7%7D%7D",
    "a query of SQL": "'%20OR%20'1'%3D'1",
    "thousands of segments": "/".join(["a"] * MANY),
    "thousands of dots": "/".join([".."] * MANY),
    "a long name": "a" * 30_000,
}
_PARAMETER = re.compile(r"\{\w+\+?\}")


@dataclass(frozen=True)
class HostileRequest:
    """A request that only an attacker or a broken client sends."""

    name: str
    data: bytes
    statuses: frozenset[int]
    """The status of each response is one of these."""
    is_complete: bool = True
    """Whether it is complete, so that the server must respond."""


def hostile_requests(token: str, seed: int) -> Iterator[HostileRequest]:
    """All hostile requests, with this token."""
    head = f"Host: annals\r\nAuthorization: Bearer {token}\r\n".encode()
    return chain(paths(head), targets(head), framing(head), heads(head), bodies(head), noise(head, seed))


def send_raw(address: tuple[str, int], data: bytes) -> list[ReceivedResponse]:
    """Send `data`, close the sending side, and return all responses until the server disconnects."""
    with socket.create_connection(address, RESPONSE_TIMEOUT_S) as sock:
        received = b""
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while piece := sock.recv(1 << 16):
                received += piece
        except ConnectionError:
            pass  # the server may disconnect after a refusal
    return list(parse_responses(received, is_closed=True))


def build_request(method: str, target: str, head: bytes, more: Iterable[str] = (), body: bytes = b"") -> bytes:
    """An HTTP request with these headers and a Content-Length if it has a body."""
    lines = "".join(f"{line}\r\n" for line in (*more, *([f"Content-Length: {len(body)}"] if body else [])))
    return f"{method} {target} HTTP/1.1\r\n".encode("latin-1") + head + lines.encode("latin-1") + b"\r\n" + body


def paths(head: bytes) -> Iterator[HostileRequest]:
    """Every route with path parameters, and values that would escape from the path."""
    for pattern, methods in sorted(app.app.routes.items()):
        for place in _PARAMETER.finditer(pattern):
            for name, segment in SEGMENTS.items():
                before, after = pattern[: place.start()], pattern[place.end() :]
                target = f"{_PARAMETER.sub('x', before)}{segment}{_PARAMETER.sub('x', after)}"
                for method in sorted(methods):
                    yield HostileRequest(f"{method} {pattern}: {name}", build_request(method, target, head), HARMLESS)


def targets(head: bytes) -> Iterator[HostileRequest]:
    """Misleading request targets."""
    for target, statuses in {
        "http://elsewhere.example/health": HARMLESS,
        "http://elsewhere.example": HARMLESS,
        "http://[::1/health": BAD,
        "file:///etc/passwd": BAD,
        "//etc/passwd": HARMLESS,
        "/./health": HARMLESS,
        "/health/..": HARMLESS,
        "/console/%2e%2e/%2e%2e/app.py": HARMLESS,
        "/console//etc/passwd": HARMLESS,
        "/console/index.html%00": HARMLESS,
        "/reports/x?ticket=" + "a." * MANY: HARMLESS,
        "/health#fragment": HARMLESS,
        "/" + "?" * MANY: HARMLESS,
        "/" + "%" * MANY: HARMLESS,
        "*": HARMLESS,
        "\\health": BAD,
        "/a\x00b": BAD,
        "/\xff": BAD,
        "/a b": BAD,
        "health": BAD,
    }.items():
        yield HostileRequest(f"the target {target[:40]!r}", build_request("GET", target, head), statuses)
    for method in ("TRACE", "OPTIONS", "PATCH", "PROPFIND", "CONNECT", "PURGE"):
        yield HostileRequest(method, build_request(method, "/events", head), HARMLESS)


def framing(head: bytes) -> Iterator[HostileRequest]:
    """Requests with ambiguous ends that contain another request."""
    smuggled = build_request("POST", "/events", head, body=SMUGGLED)
    for name, lines, body, statuses in (
        ("two lengths", ("Content-Length: 0", f"Content-Length: {len(smuggled)}"), smuggled, BAD),
        ("the same length twice", ("Content-Length: 2", "Content-Length: 2"), b"{}" + smuggled, BAD),
        ("lengths in a list", ("Content-Length: 0, 0",), smuggled, BAD),
        ("a length with a plus", ("Content-Length: +0",), smuggled, BAD),
        ("a negative length", ("Content-Length: -1",), smuggled, BAD),
        ("a length in hexadecimal", ("Content-Length: 0x0",), smuggled, BAD),
        ("an empty length", ("Content-Length:",), smuggled, BAD),
        ("a huge length", (f"Content-Length: {'9' * 30}",), smuggled, BAD),
        ("a length and chunks", (f"Content-Length: {len(smuggled)}", CHUNKED), b"0\r\n\r\n" + smuggled, BAD),
        ("chunks and a length", (CHUNKED, "Content-Length: 0"), b"0\r\n\r\n" + smuggled, BAD),
        ("chunked, identity", ("Transfer-Encoding: chunked, identity",), b"0\r\n\r\n" + smuggled, NOT_HTTP),
        ("identity, chunked", ("Transfer-Encoding: identity, chunked",), b"0\r\n\r\n" + smuggled, NOT_HTTP),
        ("gzip, chunked", ("Transfer-Encoding: gzip, chunked",), b"0\r\n\r\n" + smuggled, NOT_HTTP),
        ("chunked twice", (CHUNKED, CHUNKED), b"0\r\n\r\n" + smuggled, NOT_HTTP),
        ("chunked with a vertical tab", ("Transfer-Encoding: \x0bchunked",), b"0\r\n\r\n" + smuggled, NOT_HTTP),
        ("an unknown coding", ("Transfer-Encoding: xchunked",), b"0\r\n\r\n" + smuggled, NOT_HTTP),
        ("a space before the colon", ("Transfer-Encoding : chunked",), b"0\r\n\r\n" + smuggled, BAD),
        ("a folded coding", ("Transfer-Encoding:", " chunked"), b"0\r\n\r\n" + smuggled, BAD),
        ("a chunk of a huge size", (CHUNKED,), b"F" * 17 + b"\r\n" + smuggled, BAD),
        ("a chunk of a negative size", (CHUNKED,), b"-1\r\n" + smuggled, BAD),
        ("a chunk with 0x", (CHUNKED,), b"0x0\r\n\r\n" + smuggled, BAD),
        ("a chunk with a bare newline", (CHUNKED,), b"0\n\n" + smuggled, BAD),
        ("an extension with a newline", (CHUNKED,), b"0;a\nb\r\n\r\n" + smuggled, BAD),
        ("a chunk longer than it says", (CHUNKED,), b"1\r\n{}\r\n0\r\n\r\n" + smuggled, BAD),
        ("a long extension", (CHUNKED,), b"1;" + b"a" * 3 * MAX_HEAD_BYTES, NOT_HTTP),
        ("many trailers", (CHUNKED,), b"0\r\n" + b"a: b\r\n" * MAX_HEAD_BYTES, NOT_HTTP),
        ("a long trailer", (CHUNKED,), b"0\r\na: " + b"b" * 3 * MAX_HEAD_BYTES, NOT_HTTP),
        ("chunks of one byte", (CHUNKED,), b"1\r\n \r\n" * MAX_HEAD_BYTES, NOT_HTTP),
        ("another protocol", ("Connection: Upgrade", "Upgrade: websocket", content_length(smuggled)), smuggled, BAD),
        ("another HTTP", ("Connection: Upgrade", "Upgrade: h2c", content_length(smuggled)), smuggled, BAD),
    ):
        yield HostileRequest(f"framing: {name}", build_request("POST", "/events", head, lines) + body, statuses)
    old = build_request("POST", "/events", head, (CHUNKED,)).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    yield HostileRequest("framing: chunks in HTTP/1.0", old + b"0\r\n\r\n" + smuggled, BAD)


def heads(head: bytes) -> Iterator[HostileRequest]:
    """Malformed heads, and header values that contain headers."""
    for name, lines, statuses in (
        ("a newline in a value", ("X-Organization: a\nX-Injected: yes",), BAD),
        ("a return in a value", ("X-Organization: a\rX-Injected: yes",), BAD),
        ("a folded value", ("X-Organization: a", " X-Injected: yes"), BAD),
        ("a zero in a value", ("X-Organization: a\x00b",), BAD),
        ("a zero in a name", ("X\x00Y: a",), BAD),
        ("no name", (": a",), BAD),
        ("no colon", ("hello",), BAD),
        ("two hosts", ("Host: elsewhere.example",), BAD),
        ("markup as organization", ("X-Organization: <script>alert(1)</script>",), HARMLESS),
        ("a long organization", (f"X-Organization: {'a' * 60_000}",), HARMLESS),
        ("an organization that is not ASCII", ("X-Organization: \xff\xfe",), HARMLESS),
        ("a long position", ("Accept: text/event-stream", f"Last-Event-ID: {'9' * 60_000}"), BAD),
        ("an invalid position", ("Accept: text/event-stream", "Last-Event-ID: 1\tdata: x"), BAD),
        ("a long Accept header", (f"Accept: {'a/b;q=0.1,' * 6_000}",), HARMLESS),
        ("an Accept header without types", (f"Accept: {';' * 60_000}",), HARMLESS),
        ("an invalid quality", ("Accept: application/json;q=nan, */*;q=-1",), HARMLESS),
        ("thousands of headers", tuple(f"{number}:" for number in range(MANY)), HARMLESS),
        ("a header thousands of times", tuple("a:" for _ in range(MANY)), HARMLESS),
        ("too many headers", tuple(f"{number}: {'a' * 1_000}" for number in range(200)), NOT_HTTP),
        ("an expectation", ("Expect: 200-ok",), HARMLESS),
    ):
        yield HostileRequest(f"head: {name}", build_request("GET", "/events", head, lines), statuses)
    key = build_request("POST", "/events", head, (f"Idempotency-Key: {'k' * 60_000}",), b'{"events":[]}')
    yield HostileRequest("head: a long idempotency key", key, BAD)
    for name, data in {
        "HTTP/0.9": b"GET /health\r\n\r\n",
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        "HTTP/2.0 in a request line": b"GET /health HTTP/2.0\r\n\r\n",
        "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(range(256)),
        "SSH": b"SSH-2.0-OpenSSH_9.9\r\n",
        "SOCKS": b"\x05\x01\x00",
        "bare newlines": b"GET /health HTTP/1.1\n" + head.replace(b"\r\n", b"\n") + b"\n",
        "empty lines": b"\r\n" * 3 * MAX_HEAD_BYTES,
        "an incomplete head": b"GET /health HTTP/1.1\r\n" + head,
        "an incomplete body": build_request("POST", "/events", head, ("Content-Length: 1000",)) + b"{",
    }.items():
        yield HostileRequest(f"wire: {name}", data, NOT_HTTP, is_complete=False)


def bodies(head: bytes) -> Iterator[HostileRequest]:
    """Bodies that cost more to read than to send."""
    for name, route, body, statuses in _large_bodies():
        yield HostileRequest(f"body of {route}: {name}", build_request("POST", route, head, body=body), statuses)
    for name, packed in _bombs().items():
        data = build_request("POST", "/events", head, (f"Content-Encoding: {name}",), packed)
        yield HostileRequest(f"a bomb of {name}", data, frozenset({HTTPStatus.UNSUPPORTED_MEDIA_TYPE}))
    observer = json.dumps({"channel": "app", "config": {"to": "anna"}, "filter": "("}).encode()
    for name, expression in {
        "brackets": "(" * 1_900,
        "brackets in pairs": "(" * 900 + "1" + ")" * 900,
        "nots": "not " * 490 + "1",
        "minus": "-" * 1_900 + "1",
        "lists": "[" * 900 + "]" * 900,
        "pipes": "1" + "|abs" * 490,
    }.items():
        body = observer.replace(b'"("', json.dumps(expression).encode())
        yield HostileRequest(
            f"a filter of {name}", build_request("PUT", "/observers/hostile", head, body=body), HARMLESS
        )


def noise(head: bytes, seed: int) -> Iterator[HostileRequest]:
    """Random bytes, and valid requests with some random bytes."""
    rng = random.Random(seed)
    valid = build_request("POST", "/events/x", head, ("Content-Type: application/json",), b'{"events":[]}')
    for number in range(100):
        yield HostileRequest(f"noise {number}", rng.randbytes(rng.randrange(1, 4_000)), NOT_HTTP, is_complete=False)
        damaged = bytearray(valid)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        yield HostileRequest(f"damaged {number}", bytes(damaged), HARMLESS | NOT_HTTP | {100}, is_complete=False)


def content_length(body: bytes) -> str:
    return f"Content-Length: {len(body)}"


CHUNKED = "Transfer-Encoding: chunked"
SMUGGLED = b'{"events":[{"type":["smuggled"]}]}'


@cache
def _bombs() -> dict[str, bytes]:
    return {
        "gzip": gzip.compress(b" " * 50_000_000, mtime=0),
        "deflate": zlib.compress(b" " * 50_000_000),
        "br": b"\x00" * 100,
        "gzip, gzip": gzip.compress(gzip.compress(b" " * 1_000_000, mtime=0), mtime=0),
    }


def _large_bodies() -> Iterator[tuple[str, str, bytes, frozenset[int]]]:
    for name, route, before, unit, after in (
        ("empty events", "/events", b'{"events":[', b"{},", b"{}]}"),
        ("tiny events", "/events", b'{"events":[', b'{"type":[]},', b'{"type":[]}]}'),
        ("tiny events", "/events/job", b'{"events":[', b"{},", b"{}]}"),
        ("empty jobs", "/events/job", b'{"event":"createJobSet","id":1,"node":"n","jobs":[', b"{},", b"{}]}"),
        ("lists", "/events", b'{"events":[{"type":["a"],"payload":{"type":"json","data":[', b"[],", b"1]}}]}"),
        ("a type of many subtypes", "/events", b'{"events":[{"type":[', b'"a",', b'"a"]}]}'),
        ("a type of bad subtypes", "/events", b'{"events":[{"type":[', b'"?",', b'"a"]}]}'),
        ("a long time", "/events", b'{"events":[{"type":["a"],"sourceTimestamp":"', b"1", b'"}]}'),
        ("zeros", "/events", b'{"events":[{"type":["', rb"\u0000", b'"]}]}'),
        (
            "a condition of many keys",
            "/events",
            b'{"events":[],"condition":{"failIfEventsMatch":{"keys":["',
            b'","',
            b'"]}}}',
        ),
        ("a long path", "/jobscheduler/master/api/order", b'{"path":"/', b"a|", b'"}'),
        ("many paths", "/jobscheduler/master/api/order", b'{"paths":[', b'"/",', b'"/"]}'),
        ("a pattern of many subtypes", "/events/latest", b'{"types":[[', b'"?",', b'"*"]]}'),
        ("bad patterns", "/events/timeseries", b'{"types":[', b'"a*",', b'"a"]}'),
        ("lists", "/sign-in", b'{"code":[', b"[],", b"[]]}"),
    ):
        room = MAX_BODY_BYTES - len(before) - len(after)
        yield name, route, before + unit * (room // len(unit)) + after, TOO_LARGE
    members = b",".join(b'"%d":1' % number for number in range(MAX_BODY_BYTES // 12))
    yield "unknown members", "/events", b"{" + members + b"}", BAD
    yield "unknown members of an event", "/events", b'{"events":[{' + members + b"}]}", BAD
    yield "too much", "/events", b" " * (MAX_BODY_BYTES + 1), TOO_LARGE
