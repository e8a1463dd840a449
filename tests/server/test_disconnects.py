"""Clients that disconnect, or send nothing more, at any point of a request."""

import json
import socket
from contextlib import closing

import apsw
import pytest

from tests.server.raw_connection import (
    RawConnection,
    get,
    post,
    request,
    reset_connection,
)
from tests.server.test_protocol import is_serving, types
from tests.serving import Member, Server


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_connection_close_header_closes_after_response(method: str, server: Server, member: Member) -> None:
    with RawConnection(server) as wire:
        wire.send((post(member, "a", Connection="close")) if method == "POST" else get(member, Connection="close"))
        answer = wire.response()
        assert (answer.status in (200, 201), answer.headers["connection"], wire.read_to_end()) == (True, "close", b"")


def test_http_1_0_connection_closes_after_response(server: Server) -> None:
    with RawConnection(server) as wire:
        wire.send(b"GET /health HTTP/1.0\r\n\r\n")
        assert (wire.response().status, wire.read_to_end()) == (200, b"")


def test_expect_continue_then_reset_leaves_server_running(victim: Server) -> None:
    member = victim.organization()
    head, _, _ = post(member, "a", Expect="100-continue").partition(b"\r\n\r\n")
    for _ in range(20):
        wire = RawConnection(victim)
        wire.send(head + b"\r\n\r\n")
        reset_connection(wire.socket)
    assert is_serving(victim)
    assert types(member) == []


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_half_closed_client_gets_its_response(method: str, server: Server, member: Member) -> None:
    with RawConnection(server) as wire:
        wire.send(post(member, "a") if method == "POST" else get(member))
        wire.socket.shutdown(socket.SHUT_WR)
        assert (wire.response().status in (200, 201), wire.read_to_end()) == (True, b"")


def test_disconnect_during_request_writes_nothing(victim: Server) -> None:
    member = victim.organization()
    whole = post(member, "a")
    for length in range(0, len(whole), 7):
        wire = RawConnection(victim)
        wire.send(whole[:length])
        (reset_connection if length % 2 else socket.socket.close)(wire.socket)
    assert is_serving(victim)
    assert types(member) == []


def test_disconnect_before_response_leaves_server_running(victim: Server) -> None:
    member = victim.organization()
    for number in range(20):
        wire = RawConnection(victim)
        wire.send(post(member, str(number)) + get(member, "/events?timeout=1ms" if number % 2 else "/events"))
        reset_connection(wire.socket)
    assert is_serving(victim)


def test_disconnect_while_store_is_slow_affects_no_other(victim: Server) -> None:
    member = victim.organization()
    known = post(member, "a")
    clients = [RawConnection(victim) for _ in range(3)]
    for client in clients:
        client.send(known)
        assert client.response().status == 201
    with closing(apsw.Connection(str(victim.data_dir / "annals.sqlite"))) as other:
        other.execute("BEGIN IMMEDIATE")
        for client in clients:
            client.send(known)
        reset_connection(clients.pop().socket)
        assert is_serving(victim)
        assert is_serving(victim)
        other.execute("ROLLBACK")
    assert [client.response().status for client in clients] == [201, 201]
    for client in clients:
        client.send(known)
        assert client.response().status == 201
        client.close()


def test_requests_after_connection_close_are_ignored(victim: Server) -> None:
    member = victim.organization()
    with RawConnection(victim) as wire:
        wire.send(post(member, "known"))
        assert wire.response().status == 201
        body = json.dumps({"events": [{"type": ["ended"]}]}, indent=4000).encode()
        headers = {"Authorization": f"Bearer {member.token}", "Connection": "close"}
        wire.send(request("POST", "/events", body, **headers) + post(member, "known"))
        assert wire.response().status == 201
        assert b" 201 " not in wire.read_to_end()
    assert types(member) == ["known", "ended"]
