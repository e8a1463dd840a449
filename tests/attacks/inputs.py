"""Hostile requests: bytes on the wire, and the statuses that they may get. The same seed makes the same requests."""

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
from infra.server.http.protocol import MOST_BODY_BYTES, MOST_HEADER_BYTES
from tests.server.crowd import Got, answers

THROW_S = 15.0
"""How long an answer may take, on a machine that others load too."""
MANY = 10_000
DEEP = 100_000

BAD = frozenset({400})
TOO_LARGE = frozenset({400, 413})
NO_HTTP = frozenset({400, 431, 501, 505})
"""What is no request gets one of these, and the connection ends."""
HARMLESS = frozenset({200, 201, 304, 400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 431})
"""Whatever it was, it was understood or refused."""

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
    "bytes that are no UTF-8": "%FF%FE",
    "an overlong slash": "..%C0%AF..%C0%AFapp.py",
    "a surrogate": "%ED%A0%80",
    "half an escape": "%2",
    "no escape": "%zz",
    "text that turns around": quote("\u202eevil\u2066"),
    "markup": "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    "a template": "%7B%7B7*7%7D%7D",
    "a query of SQL": "'%20OR%20'1'%3D'1",
    "thousands of segments": "/".join(["a"] * MANY),
    "thousands of dots": "/".join([".."] * MANY),
    "a long name": "a" * 30_000,
}
_PARAMETER = re.compile(r"\{\w+\+?\}")


@dataclass(frozen=True)
class Hostile:
    """A request that nobody with good intentions sends."""

    name: str
    data: bytes
    statuses: frozenset[int]
    """Each answer has one of these."""
    has_end: bool = True
    """Whether it is complete, so that there must be an answer."""


def hostile(token: str, seed: int) -> Iterator[Hostile]:
    """All of them, for somebody with this token."""
    head = f"Host: annals\r\nAuthorization: Bearer {token}\r\n".encode()
    return chain(paths(head), targets(head), framing(head), heads(head), queries(head), bodies(head), noise(head, seed))


def throw(address: tuple[str, int], data: bytes) -> list[Got]:
    """Send it, say that nothing more will come, and take all answers until the server hangs up."""
    with socket.create_connection(address, THROW_S) as sock:
        received = b""
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while piece := sock.recv(1 << 16):
                received += piece
        except ConnectionError:
            pass  # it has said what it had to say
    return list(answers(received, has_ended=True))


def asked(method: str, target: str, head: bytes, more: Iterable[str] = (), body: bytes = b"") -> bytes:
    """A request with these headers, of the length that its body has."""
    lines = "".join(f"{line}\r\n" for line in (*more, *([f"Content-Length: {len(body)}"] if body else [])))
    return f"{method} {target} HTTP/1.1\r\n".encode("latin-1") + head + lines.encode("latin-1") + b"\r\n" + body


def paths(head: bytes) -> Iterator[Hostile]:
    """Every route that has parameters, with something in their place that points elsewhere."""
    for pattern, methods in sorted(app.app.routes.items()):
        for place in _PARAMETER.finditer(pattern):
            for name, segment in SEGMENTS.items():
                before, after = pattern[: place.start()], pattern[place.end() :]
                target = f"{_PARAMETER.sub('x', before)}{segment}{_PARAMETER.sub('x', after)}"
                for method in sorted(methods):
                    yield Hostile(f"{method} {pattern}: {name}", asked(method, target, head), HARMLESS)


def targets(head: bytes) -> Iterator[Hostile]:
    """Targets that are not what they seem."""
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
        yield Hostile(f"the target {target[:40]!r}", asked("GET", target, head), statuses)
    for method in ("TRACE", "OPTIONS", "PATCH", "PROPFIND", "CONNECT", "PURGE"):
        yield Hostile(method, asked(method, "/events", head), HARMLESS)


def framing(head: bytes) -> Iterator[Hostile]:
    """Requests of which two readers may think differently where they end, each with another one inside."""
    inside = asked("POST", "/events", head, body=SMUGGLED)
    for name, lines, body, statuses in (
        ("two lengths", ("Content-Length: 0", f"Content-Length: {len(inside)}"), inside, BAD),
        ("the same length twice", ("Content-Length: 2", "Content-Length: 2"), b"{}" + inside, BAD),
        ("lengths in a list", ("Content-Length: 0, 0",), inside, BAD),
        ("a length with a plus", ("Content-Length: +0",), inside, BAD),
        ("a negative length", ("Content-Length: -1",), inside, BAD),
        ("a length in hexadecimal", ("Content-Length: 0x0",), inside, BAD),
        ("an empty length", ("Content-Length:",), inside, BAD),
        ("a length beyond all numbers", (f"Content-Length: {'9' * 30}",), inside, BAD),
        ("a length and chunks", (f"Content-Length: {len(inside)}", CHUNKED), b"0\r\n\r\n" + inside, BAD),
        ("chunks and a length", (CHUNKED, "Content-Length: 0"), b"0\r\n\r\n" + inside, BAD),
        ("chunked, identity", ("Transfer-Encoding: chunked, identity",), b"0\r\n\r\n" + inside, NO_HTTP),
        ("identity, chunked", ("Transfer-Encoding: identity, chunked",), b"0\r\n\r\n" + inside, NO_HTTP),
        ("gzip, chunked", ("Transfer-Encoding: gzip, chunked",), b"0\r\n\r\n" + inside, NO_HTTP),
        ("chunked twice", (CHUNKED, CHUNKED), b"0\r\n\r\n" + inside, NO_HTTP),
        ("chunked with a vertical tab", ("Transfer-Encoding: \x0bchunked",), b"0\r\n\r\n" + inside, NO_HTTP),
        ("an unknown coding", ("Transfer-Encoding: xchunked",), b"0\r\n\r\n" + inside, NO_HTTP),
        ("a space before the colon", ("Transfer-Encoding : chunked",), b"0\r\n\r\n" + inside, BAD),
        ("a folded coding", ("Transfer-Encoding:", " chunked"), b"0\r\n\r\n" + inside, BAD),
        ("a chunk of a huge size", (CHUNKED,), b"F" * 17 + b"\r\n" + inside, BAD),
        ("a chunk of a negative size", (CHUNKED,), b"-1\r\n" + inside, BAD),
        ("a chunk with 0x", (CHUNKED,), b"0x0\r\n\r\n" + inside, BAD),
        ("a chunk with a bare newline", (CHUNKED,), b"0\n\n" + inside, BAD),
        ("an extension with a newline", (CHUNKED,), b"0;a\nb\r\n\r\n" + inside, BAD),
        ("a chunk longer than it says", (CHUNKED,), b"1\r\n{}\r\n0\r\n\r\n" + inside, BAD),
        ("an extension without end", (CHUNKED,), b"1;" + b"a" * 3 * MOST_HEADER_BYTES, NO_HTTP),
        ("trailers without end", (CHUNKED,), b"0\r\n" + b"a: b\r\n" * MOST_HEADER_BYTES, NO_HTTP),
        ("a trailer without end", (CHUNKED,), b"0\r\na: " + b"b" * 3 * MOST_HEADER_BYTES, NO_HTTP),
        ("chunks of one byte", (CHUNKED,), b"1\r\n \r\n" * MOST_HEADER_BYTES, NO_HTTP),
        ("another protocol", ("Connection: Upgrade", "Upgrade: websocket", length_of(inside)), inside, BAD),
        ("another HTTP", ("Connection: Upgrade", "Upgrade: h2c", length_of(inside)), inside, BAD),
    ):
        yield Hostile(f"framing: {name}", asked("POST", "/events", head, lines) + body, statuses)
    old = asked("POST", "/events", head, (CHUNKED,)).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    yield Hostile("framing: chunks in HTTP/1.0", old + b"0\r\n\r\n" + inside, BAD)


def heads(head: bytes) -> Iterator[Hostile]:
    """Heads that are no heads, and headers whose values would be headers."""
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
        ("a position that is none", ("Accept: text/event-stream", "Last-Event-ID: 1\tdata: x"), BAD),
        ("all that is accepted", (f"Accept: {'a/b;q=0.1,' * 6_000}",), HARMLESS),
        ("nothing that is accepted", (f"Accept: {';' * 60_000}",), HARMLESS),
        ("a liking that is no number", ("Accept: application/json;q=nan, */*;q=-1",), HARMLESS),
        ("thousands of headers", tuple(f"{number}:" for number in range(MANY)), HARMLESS),
        ("a header thousands of times", tuple("a:" for _ in range(MANY)), HARMLESS),
        ("headers without end", tuple(f"{number}: {'a' * 1_000}" for number in range(200)), NO_HTTP),
        ("an expectation", ("Expect: 200-ok",), HARMLESS),
    ):
        yield Hostile(f"head: {name}", asked("GET", "/events", head, lines), statuses)
    key = asked("POST", "/events", head, (f"Idempotency-Key: {'k' * 60_000}",), b'{"events":[]}')
    yield Hostile("head: a long idempotency key", key, BAD)
    for name, data in {
        "HTTP/0.9": b"GET /health\r\n\r\n",
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        "HTTP/2 in words": b"GET /health HTTP/2.0\r\n\r\n",
        "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(range(256)),
        "SSH": b"SSH-2.0-OpenSSH_9.9\r\n",
        "SOCKS": b"\x05\x01\x00",
        "bare newlines": b"GET /health HTTP/1.1\n" + head.replace(b"\r\n", b"\n") + b"\n",
        "empty lines": b"\r\n" * 3 * MOST_HEADER_BYTES,
        "half a head": b"GET /health HTTP/1.1\r\n" + head,
        "half a body": asked("POST", "/events", head, ("Content-Length: 1000",)) + b"{",
    }.items():
        yield Hostile(f"wire: {name}", data, NO_HTTP, has_end=False)


def queries(head: bytes) -> Iterator[Hostile]:
    """Parameters that would take long to understand."""
    for name, target, statuses in (
        ("a pattern of many subtypes", f"/events?types={'?/' * MANY}*", BAD),
        ("a pattern of many stars", f"/events?types={'*/' * MANY}*", BAD),
        ("many patterns", f"/events?{'&'.join(['types=?'] * 8_000)}", BAD),
        ("many keys", f"/events?{'&'.join(['keys=a'] * 8_000)}", BAD),
        ("many parameters", f"/events?{'&'.join(f'a{number}=' for number in range(8_000))}", BAD),
        ("many paths", f"/jobscheduler/master/api/order/{'|'.join(map(str, range(MANY)))}", BAD),
        ("many flat folders", f"/objects/order/{'*|' * MANY}", BAD),
        ("a number of many digits", f"/events?after={'9' * 60_000}", BAD),
        ("a number of many zeros", f"/events?limit={'0' * 60_000}", BAD),
        ("a large number", f"/events/server?maxResults=1{'0' * 3_000}", HARMLESS),
        ("a long duration", f"/events?timeout={'1h' * 30_000}", BAD),
        ("a duration of many digits", f"/events?timeout={'1' * 60_000}", BAD),
        ("a long time", f"/events/timeseries?tFrom={'1' * 60_000}", BAD),
        ("a long id", f"/events/server?lastEventId={'1.' * 30_000}", BAD),
        ("an id beyond all logs", f"/events/server?lastEventId=1.{'9' * 15}.{'9' * 15}", BAD),
        ("a long search", f"/objects/order?brief=yes&search={'a' * 60_000}", BAD),
        ("a name that is no UTF-8", "/events?%FF=1", BAD),
        ("a value that is no UTF-8", "/events?keys=%C3", BAD),
        ("a zero", "/events?keys=%00", HARMLESS),
        ("brackets", f"/events?types={'[' * MANY}", BAD),
    ):
        yield Hostile(f"query: {name}", asked("GET", target, head), statuses)


def bodies(head: bytes) -> Iterator[Hostile]:
    """Bodies that cost more to read than to send, or mean different things to different readers."""
    for name, route, body, statuses in (*_json_bodies(), *_large_bodies()):
        yield Hostile(f"body of {route}: {name}", asked("POST", route, head, body=body), statuses)
    for name, packed in _bombs().items():
        data = asked("POST", "/events", head, (f"Content-Encoding: {name}",), packed)
        yield Hostile(f"a bomb of {name}", data, frozenset({HTTPStatus.UNSUPPORTED_MEDIA_TYPE}))
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
        yield Hostile(f"a filter of {name}", asked("PUT", "/observers/hostile", head, body=body), HARMLESS)


def noise(head: bytes, seed: int) -> Iterator[Hostile]:
    """Bytes by chance, and good requests with some bytes by chance."""
    chance = random.Random(seed)
    good = asked("POST", "/events/x", head, ("Content-Type: application/json",), b'{"events":[]}')
    for number in range(100):
        yield Hostile(f"noise {number}", chance.randbytes(chance.randrange(1, 4_000)), NO_HTTP, has_end=False)
        torn = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            torn[chance.randrange(len(torn))] = chance.randrange(256)
        yield Hostile(f"torn {number}", bytes(torn), HARMLESS | NO_HTTP | {100}, has_end=False)


def length_of(body: bytes) -> str:
    """The header that tells how long a body is."""
    return f"Content-Length: {len(body)}"


CHUNKED = "Transfer-Encoding: chunked"
SMUGGLED = b'{"events":[{"type":["smuggled"]}]}'

_PAYLOAD = b'{"events":[{"type":["a"],"payload":{"type":"json","data":%b}}]}'


@cache
def _bombs() -> dict[str, bytes]:
    return {
        "gzip": gzip.compress(b" " * 50_000_000, mtime=0),
        "deflate": zlib.compress(b" " * 50_000_000),
        "br": b"\x00" * 100,
        "gzip, gzip": gzip.compress(gzip.compress(b" " * 1_000_000, mtime=0), mtime=0),
    }


def _json_bodies() -> Iterator[tuple[str, str, bytes, frozenset[int]]]:
    for name, value in {
        "lists without end": b"[" * DEEP + b"]" * DEEP,
        "objects without end": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        "lists that do not close": b"[" * DEEP,
        "a million digits": b"9" * 1_000_000,
        "a large exponent": b"1e999999",
        "an exponent of many digits": b"1e" + b"9" * DEEP,
        "NaN": b"NaN",
        "Infinity": b"-Infinity",
        "a lone surrogate": rb'"\udfff"',
        "an overlong slash": b'"\xc0\xaf"',
        "a raw zero": b'"a\x00b"',
    }.items():
        yield name, "/events", _PAYLOAD % value, BAD
    for name, body in {
        "UTF-16": '{"events":[]}'.encode("utf-16"),
        "UTF-32": '{"events":[]}'.encode("utf-32"),
        "a byte order mark": b'\xef\xbb\xbf{"events":[]}',
        "true for a number": b'{"events":[],"condition":{"failIfEventsMatch":{},"after":true}}',
        "text for a number": b'{"events":[{"type":["a"],"sourceTimestamp":{"s":"1","us":0}}]}',
        "a prototype": b'{"__proto__":{"events":[]},"constructor":1}',
    }.items():
        yield name, "/events", body, BAD
    yield "the same member twice", "/events", b'{"events":[{"type":["a"]}],"events":[]}', frozenset({200})


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
        room = MOST_BODY_BYTES - len(before) - len(after)
        yield name, route, before + unit * (room // len(unit)) + after, TOO_LARGE
    members = b",".join(b'"%d":1' % number for number in range(MOST_BODY_BYTES // 12))
    yield "unknown members", "/events", b"{" + members + b"}", BAD
    yield "unknown members of an event", "/events", b'{"events":[{' + members + b"}]}", BAD
    yield "too much", "/events", b" " * (MOST_BODY_BYTES + 1), TOO_LARGE
