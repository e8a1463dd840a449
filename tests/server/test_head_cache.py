"""A head that came before is not parsed again: whoever sends it is understood exactly as if it were."""

import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.server.gateway.gateway import HttpRequest
from infra.server.http.connection import Connection
from infra.server.http.head_cache import LONGEST_BYTES, MOST_HEADS, KnownHeads
from infra.server.http.protocol import MOST_HEADER_BYTES

PATIENCE_S = 15.0
POST = b"POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
NEVER_PLAIN = {
    "no length": b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
    "chunked": b"POST /events HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "asks first": b"POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    "another protocol": b"POST /e HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
    "empty lines before it": b"\r\n\r\n" + POST + b"hello",
    "a whole address": b"POST http://a/events HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "the last one": b"POST /e HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    "comes once": b"POST /e HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 5\r\n\r\nhello",
    "too long": b"POST /e HTTP/1.1\r\nHost: %b\r\nContent-Length: 5\r\n\r\nhello" % (b"a" * LONGEST_BYTES),
}

Taken = list[tuple[HttpRequest, bool] | str]


class Forgetful(KnownHeads):
    """Learns nothing, so that every request is parsed."""

    def learn(self, head: bytes, request: HttpRequest) -> None:
        """Forget it."""


@contextmanager
def connected(heads: KnownHeads) -> Iterator[tuple[socket.socket, Connection]]:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as client:
        connection = Connection(door.accept()[0], heads)
        with connection.socket:
            yield client, connection


def taken(heads: KnownHeads, pieces: Sequence[bytes]) -> Taken:
    """What a connection makes of what comes in these pieces: requests, and perhaps why it takes no more."""
    found: Taken = []
    with connected(heads) as (client, connection):
        for piece in pieces:
            client.sendall(piece)
            left = len(piece)
            while left and connection.rejection is None:
                assert select.select([connection.socket], [], [], PATIENCE_S)[0]
                before = len(connection._kept)
                connection.keep()
                left -= len(connection._kept) - before
                while connection.take_kept():
                    found += connection.requests
                    connection.requests.clear()
        if connection.rejection is not None:
            found.append(str(connection.rejection))
    return found


def test_a_plain_request_is_known_the_second_time() -> None:
    heads = KnownHeads()
    assert heads.request(POST + b"hello") is None
    assert taken(heads, [POST + b"first"]) == taken(heads, [POST + b"first"])
    headers = {"host": "a", "content-length": "5"}
    again = HttpRequest("POST", "/events", headers, b"again", "1.1")
    assert heads.request(POST + b"again and more") == (again, len(POST) + 5)
    assert heads.request(POST + b"agai") is None


@pytest.mark.parametrize("request_bytes", NEVER_PLAIN.values(), ids=NEVER_PLAIN)
def test_what_is_not_plain_is_never_known(request_bytes: bytes) -> None:
    heads = KnownHeads()
    assert len(taken(heads, [request_bytes])) == 1
    assert heads.request(request_bytes) is None


def test_no_more_heads_are_known_than_a_few() -> None:
    heads = KnownHeads()
    sent = [POST.replace(b"/events", b"/%d" % number) + b"hello" for number in range(MOST_HEADS + 1)]
    with connected(heads) as (client, connection):
        for one in sent:
            client.sendall(one)
            assert select.select([connection.socket], [], [], PATIENCE_S)[0]
            connection.keep()
            assert connection.take_kept()
            connection.requests.clear()
    assert [heads.request(one) is not None for one in sent] == [False] + [True] * MOST_HEADS


def test_nothing_is_taken_after_the_last_request() -> None:
    heads, last = KnownHeads(), POST.replace(b"Host: a", b"Connection: close")
    taken(heads, [POST + b"hello"])
    pieces = [last + b"hello", POST + b"hello"]
    assert taken(heads, pieces) == taken(Forgetful(), pieces)
    assert len(taken(heads, pieces)) == 2, "the last request, and why no more is taken"


def test_empty_lines_between_known_requests_do_not_add_up_to_a_long_head() -> None:
    heads = KnownHeads()
    pieces = [POST + b"hello" + b"\r\n" * 1000] * (MOST_HEADER_BYTES // 2000 + 1)
    assert len(taken(heads, pieces)) == len(pieces)
    assert all(isinstance(one, tuple) for one in taken(heads, pieces))


_line_ends = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r"])
_lines = st.sampled_from(
    [
        b"Host: a",
        b"Host: b",
        b"Content-Length: 5",
        b"Content-Length: 5",
        b"Content-Length: 05",
        b"Content-Length: 50",
        b"content-length: +5",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Connection: Upgrade",
        b"Upgrade: h2c",
        b"Expect: 100-continue",
        b"X: a\r\n b",
        b"X:",
        b"",
    ]
)
_first_lines = st.sampled_from(
    [b"POST /a HTTP/1.1", b"POST /a HTTP/1.1", b"PUT /b HTTP/1.0", b"POST http://a/a HTTP/1.1", b"", b"GET /a HTTP/1.1"]
)
_bodies = st.sampled_from([b"hello", b"hello", b"", b"5\r\nhello\r\n0\r\n\r\n", b"\r\n\r\n", POST])


@st.composite
def _requests(draw: st.DrawFn) -> bytes:
    lines = [draw(_first_lines), *draw(st.lists(_lines, max_size=4))]
    return b"".join(line + draw(_line_ends) for line in lines) + draw(_line_ends) + draw(_bodies)


@given(st.lists(st.one_of(st.just(POST + b"hello"), _requests()), min_size=1, max_size=4), st.data())
@settings(max_examples=300, deadline=None)
def test_who_sends_it_again_is_understood_as_if_it_were_parsed(requests: list[bytes], data: st.DataObject) -> None:
    """Whatever the server has learnt from others, and however what is sent is cut into pieces."""
    heads = KnownHeads()
    for learnt in requests:
        taken(heads, [learnt])
    sent = data.draw(st.permutations(requests))
    whole, ends = b"".join(sent), list(accumulate(map(len, sent)))
    cuts = sorted(data.draw(st.lists(st.one_of(st.integers(0, len(whole)), st.sampled_from(ends)), max_size=3)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert taken(heads, pieces) == taken(Forgetful(), pieces)
