"""Connections: pipelined requests, however their bytes are split, and the end of the input."""

import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.server.http.connection import MAX_BUFFERED_BYTES, Connection
from infra.server.http.protocol import MAX_HEAD_BYTES, HttpRequest, RequestParser, RequestRejected

TIMEOUT_S = 15.0
POST = b"POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"

Received = list[tuple[HttpRequest, bool] | str]


@contextmanager
def connect() -> Iterator[tuple[socket.socket, Connection]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        connection = Connection(listener.accept()[0])
        with connection.socket:
            yield client, connection


def receive(pieces: Sequence[bytes]) -> Received:
    """The requests that a connection parses from these pieces, and the reason if it rejects one."""
    received: Received = []
    with connect() as (client, connection):
        for piece in pieces:
            client.sendall(piece)
            remaining = len(piece)
            while remaining and connection.rejection is None:
                assert select.select([connection.socket], [], [], TIMEOUT_S)[0]
                buffered = len(connection._buffer)
                connection.receive()
                remaining -= len(connection._buffer) - buffered
                while connection.parse_next():
                    request = connection.start_request()
                    received.append((request, connection.keep_alive))
        if connection.rejection is not None:
            received.append(str(connection.rejection))
    return received


def test_connection_pipelined_requests_are_parsed_in_order() -> None:
    headers = {"host": "a", "content-length": "5"}
    requests = [HttpRequest("POST", "/events", headers, body, "1.1") for body in (b"first", b"again")]
    assert receive([POST + b"first" + POST + b"again"]) == [(request, True) for request in requests]


def test_connection_input_after_connection_close_is_rejected() -> None:
    last = POST.replace(b"Host: a", b"Host: a\r\nConnection: close")
    request, rejection = receive([POST + b"hello", last + b"hello", POST + b"hello"])[1:]
    assert (request[1], isinstance(rejection, str)) == (False, True)


def test_connection_empty_lines_between_requests_are_ignored() -> None:
    pieces = [POST + b"hello" + b"\r\n" * 1000] * (MAX_HEAD_BYTES // 2000 + 1)
    assert [received[1] for received in receive(pieces)] == [True] * len(pieces)


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
def test_connection_split_input_is_parsed_like_whole_input(requests: list[bytes], data: st.DataObject) -> None:
    whole, ends = b"".join(requests), list(accumulate(map(len, requests)))
    cuts = sorted(data.draw(st.lists(st.one_of(st.integers(0, len(whole)), st.sampled_from(ends)), max_size=3)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert receive(pieces) == receive([whole])


def test_head_of_the_limit_is_accepted_to_the_byte() -> None:
    parser, head = RequestParser(lambda: None), b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    parser.feed(head + b"a" * (MAX_HEAD_BYTES - len(head)))
    with pytest.raises(RequestRejected, match="the request head is larger than 64 KB"):
        parser.feed(b"a")


def test_receive_reports_whether_there_is_room_for_more() -> None:
    with connect() as (client, connection):
        client.sendall(b"a")
        assert select.select([connection.socket], [], [], TIMEOUT_S)[0]
        assert connection.receive()
        client.sendall(b"a" * MAX_BUFFERED_BYTES)
        client.shutdown(socket.SHUT_WR)
        while len(connection._buffer) < MAX_BUFFERED_BYTES:
            assert select.select([connection.socket], [], [], TIMEOUT_S)[0]
            has_room = connection.receive()
        assert not has_room
        assert not connection.receive()
        connection.discard_input()
        assert connection.receive()
        assert (connection.receive(), connection.is_eof) == (False, True)


def test_head_larger_than_the_limit_is_rejected() -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (MAX_HEAD_BYTES + 4096) + b"\r\n\r\n"
    assert receive([head]) == ["the request head is larger than 64 KB"]
