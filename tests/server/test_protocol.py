"""The HTTP edge of the embedded server: what comes over real sockets, whole, in pieces, or broken."""

import json
import socket
import sqlite3
from contextlib import closing
from typing import Any

import jwt
import pytest

from infra.server.http.protocol import MOST_BODY_BYTES, MOST_HEADER_BYTES
from tests.server.wire import LARGE_EVENTS, Wire, fill, get, post, request, reset
from tests.serving import JWT_KEY, Member, Server


def types(member: Member) -> list[str]:
    """The types of the events in the member's log."""
    return [event["type"][0] for event in member.stored()["events"]]


def is_well(server: Server) -> bool:
    """Whether the server answers somebody else."""
    with Wire(server) as wire:
        wire.send(request("GET", "/health", Connection="close"))
        return wire.answer().status == 200


def test_a_connection_is_kept(server: Server, member: Member) -> None:
    with Wire(server) as wire:
        for number in range(3):
            wire.send(post(member, str(number)))
            assert wire.answer().status == 201
    assert types(member) == ["0", "1", "2"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_connection_ends_when_the_client_says_so(method: str, server: Server, member: Member) -> None:
    with Wire(server) as wire:
        wire.send((post(member, "a", Connection="close")) if method == "POST" else get(member, Connection="close"))
        answer = wire.answer()
        assert (answer.status in (200, 201), answer.headers["connection"], wire.rest()) == (True, "close", b"")


def test_a_connection_of_http_1_0_ends_after_the_answer(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(b"GET /health HTTP/1.0\r\n\r\n")
        assert (wire.answer().status, wire.rest()) == (200, b"")


def test_pipelined_requests_are_answered_in_their_order(server: Server, member: Member) -> None:
    with Wire(server) as wire:
        wire.send(post(member, "a") + get(member) + post(member, "b") + post(member, "c") + get(member))
        answers = [wire.answer() for _ in range(5)]
    assert [answer.status for answer in answers] == [201, 200, 201, 201, 200]
    assert [[event["type"][0] for event in answers[i].json["eventSnapshots"]] for i in (1, 4)] == [
        ["a"],
        ["a", "b", "c"],
    ]


def test_thousands_of_pipelined_requests_are_all_answered(victim: Server) -> None:
    with Wire(victim) as wire:
        wire.send(request("POST", "/x") * 2_000)
        assert {wire.answer().status for _ in range(2_000)} == {404}
    assert is_well(victim)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_of_thousands_of_slashes_harms_nobody(method: str, victim: Server) -> None:
    with Wire(victim) as wire:
        wire.send(request(method, "/" * 5_000))
        assert wire.answer().status == 404
    assert is_well(victim)


def test_thousands_of_wishes_for_another_protocol_are_all_answered(victim: Server) -> None:
    member = victim.organization()
    head, _, body = post(member, "a", Expect="100-continue").partition(b"\r\n\r\n")
    wish = b"POST /x HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n"
    with Wire(victim) as wire:
        wire.send(head + b"\r\n\r\n")
        assert wire.answer().status == 100
        wire.send(body + wish * 2_000)
        assert wire.answer().status == 201
        assert {wire.answer().status for _ in range(2_000)} == {404}
    assert is_well(victim)


def test_hundreds_of_pipelined_appends_are_all_written(victim: Server) -> None:
    member = victim.organization()
    with Wire(victim) as wire:
        wire.send(b"".join(post(member, str(number)) for number in range(300)))
        assert {wire.answer().status for _ in range(300)} == {201}
    assert types(member) == [str(number) for number in range(300)]


def test_a_request_may_come_byte_by_byte(server: Server, member: Member) -> None:
    with Wire(server) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(member, "a"):
            wire.send(bytes([byte]))
        assert wire.answer().status == 201
    assert types(member) == ["a"]


def test_a_large_body_may_come_together_with_its_headers(server: Server, member: Member) -> None:
    body = json.dumps({"events": [{"type": ["a"], "payload": {"type": "json", "data": "x" * 340_000}}]}).encode()
    with Wire(server) as wire:
        for _ in range(5):
            wire.send(request("POST", "/events", body, Authorization=f"Bearer {member.token}"))
            answer = wire.answer()
            assert answer.status == 201, answer.body
    assert types(member) == ["a"] * 5


def test_a_body_may_come_in_chunks(server: Server, member: Member) -> None:
    head = request("POST", "/events", Authorization=f"Bearer {member.token}", Transfer_Encoding="chunked")
    head = head.replace(b"Content-Length: 0\r\n", b"")
    chunks = [b'{"events":[{"ty', b'pe":["', "漢".encode()[:1], "漢".encode()[1:], b'"]}]}']
    with Wire(server) as wire:
        wire.send(head)
        for chunk in chunks:
            wire.send(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        wire.send(b"0\r\n\r\n" + get(member))
        assert [wire.answer().status, wire.answer().status] == [201, 200]
    assert types(member) == ["漢"]


def test_a_client_that_asks_whether_to_go_on_is_told_so(server: Server, member: Member) -> None:
    whole = post(member, "a", Expect="100-continue")
    head, _, body = whole.partition(b"\r\n\r\n")
    with Wire(server) as wire:
        wire.send(head + b"\r\n\r\n")
        assert wire.answer().status == 100
        wire.send(body)
        assert wire.answer().status == 201
    assert types(member) == ["a"]


def test_a_client_that_asks_whether_to_go_on_with_too_much_is_told_not_to(server: Server, member: Member) -> None:
    length = str(MOST_BODY_BYTES + 1)
    head = request(
        "POST", "/events", Authorization=f"Bearer {member.token}", Expect="100-continue", Content_Length=length
    )
    with Wire(server) as wire:
        wire.send(head)
        assert (wire.answer().status, wire.rest()) == (413, b"")


def test_a_client_that_asks_whether_to_go_on_and_is_gone_harms_nobody(victim: Server) -> None:
    member = victim.organization()
    head, _, _ = post(member, "a", Expect="100-continue").partition(b"\r\n\r\n")
    for _ in range(20):
        wire = Wire(victim)
        wire.send(head + b"\r\n\r\n")
        reset(wire.socket)
    assert is_well(victim)
    assert types(member) == []


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_two_megabytes_is_413(chunked: bool, server: Server, member: Member) -> None:
    size = MOST_BODY_BYTES + 1_000_000
    how = {"Transfer_Encoding": "chunked"} if chunked else {"Content_Length": str(size)}
    head = request("POST", "/events", Authorization=f"Bearer {member.token}", **how)
    body = b"x" * size
    with Wire(server) as wire:
        wire.send(head.replace(b"Content-Length: 0\r\n", b"") + (f"{size:x}\r\n".encode() if chunked else b"") + body)
        answer = wire.answer()
    assert (answer.status, answer.headers["connection"], answer.json["detail"]) == (
        413,
        "close",
        f"the body has more than {MOST_BODY_BYTES} bytes",
    )
    assert types(member) == []


def test_a_body_of_two_megabytes_is_read(server: Server, member: Member) -> None:
    with Wire(server) as wire:
        body = b" " * MOST_BODY_BYTES
        wire.send(request("POST", "/events", body, Authorization=f"Bearer {member.token}"))
        answer = wire.answer()
    assert (answer.status, answer.json["detail"].startswith("the body is no JSON")) == (400, True)


TOO_LONG = {
    "one header": request("GET", "/health", X="x" * 3 * MOST_HEADER_BYTES),
    "many headers": request("GET", "/health", **{f"X{i}": "x" * 1_000 for i in range(200)}),
    "a target": request("GET", "/" + "x" * 3 * MOST_HEADER_BYTES),
    "a header that does not end": b"GET /health HTTP/1.1\r\nX: " + b"x" * 3 * MOST_HEADER_BYTES,
    "a target that does not end": b"GET /" + b"x" * 3 * MOST_HEADER_BYTES,
    "a header's name that does not end": b"GET /health HTTP/1.1\r\n" + b"x" * 3 * MOST_HEADER_BYTES,
}


@pytest.mark.parametrize("data", TOO_LONG.values(), ids=TOO_LONG.keys())
def test_a_head_without_end_is_431(data: bytes, server: Server) -> None:
    with Wire(server) as wire:
        wire.send(data)
        answer = wire.answer()
    assert (answer.status, answer.headers["connection"]) == (431, "close")
    assert is_well(server)


def test_long_headers_are_read(server: Server) -> None:
    with Wire(server) as wire:
        for _ in range(3):
            wire.send(request("GET", "/health", X="x" * (MOST_HEADER_BYTES - 1_000)))
            assert wire.answer().status == 200


GARBAGE = {
    "words": b"hello, is anybody there?\r\n\r\n",
    "nothing but lines": b"\r\n\r\n\r\nhello\r\n\r\n",
    "zeros": b"\x00" * 100,
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\x5a" * 200,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another version": b"GET /health HTTP/9.9\r\n\r\n",
    "an unknown method": b"FETCH /health HTTP/1.1\r\n\r\n",
    "a length that is none": b"POST /events HTTP/1.1\r\nContent-Length: ten\r\n\r\n",
    "a negative length": b"POST /events HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST /events HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a length and chunks": b"POST /events HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk that is none": b"POST /events HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "a header without a colon": b"GET /health HTTP/1.1\r\nhello\r\n\r\n",
    "a space before the colon": b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n",
    "a target with a space": b"GET /health and more HTTP/1.1\r\n\r\n",
    "a tunnel": b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_400_and_ends_the_connection(data: bytes, server: Server) -> None:
    with Wire(server) as wire:
        wire.send(data)
        answer = wire.answer()
        assert (answer.status, answer.headers["content-type"], answer.headers["connection"], wire.rest()) == (
            400,
            "application/problem+json",
            "close",
            b"",
        )
    assert is_well(server)


def test_what_came_before_garbage_is_answered_first(victim: Server) -> None:
    member = victim.organization()
    with Wire(victim) as wire:
        wire.send(post(member, "a") + b"hello\r\n\r\n")
        assert [wire.answer().status, wire.answer().status] == [201, 400]
    assert types(member) == ["a"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_client_that_has_said_everything_still_gets_its_answer(method: str, server: Server, member: Member) -> None:
    with Wire(server) as wire:
        wire.send(post(member, "a") if method == "POST" else get(member))
        wire.socket.shutdown(socket.SHUT_WR)
        assert (wire.answer().status in (200, 201), wire.rest()) == (True, b"")


def test_a_client_that_hangs_up_in_the_middle_harms_nobody(victim: Server) -> None:
    member = victim.organization()
    whole = post(member, "a")
    for length in range(0, len(whole), 7):
        wire = Wire(victim)
        wire.send(whole[:length])
        (reset if length % 2 else socket.socket.close)(wire.socket)
    assert is_well(victim)
    assert types(member) == []


def test_a_client_that_hangs_up_before_its_answer_harms_nobody(victim: Server) -> None:
    member = victim.organization()
    for number in range(20):
        wire = Wire(victim)
        wire.send(post(member, str(number)) + get(member, "/events?timeout=1ms" if number % 2 else "/events"))
        reset(wire.socket)
    assert is_well(victim)


def test_a_client_that_hangs_up_while_the_store_is_slow_harms_nobody(victim: Server) -> None:
    member = victim.organization()
    known = post(member, "a")
    clients = [Wire(victim) for _ in range(3)]
    for client in clients:
        client.send(known)
        assert client.answer().status == 201
    with closing(sqlite3.connect(victim.data_dir / "annals.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for client in clients:
            client.send(known)
        reset(clients.pop().socket)
        assert is_well(victim)
        assert is_well(victim)
        other.execute("ROLLBACK")
    assert [client.answer().status for client in clients] == [201, 201]
    for client in clients:
        client.send(known)
        assert client.answer().status == 201
        client.close()


def test_what_comes_after_the_last_request_is_not_done(victim: Server) -> None:
    """However well its head is known."""
    member = victim.organization()
    with Wire(victim) as wire:
        wire.send(post(member, "known"))
        assert wire.answer().status == 201
        body = json.dumps({"events": [{"type": ["ended"]}]}, indent=4000).encode()
        headers = {"Authorization": f"Bearer {member.token}", "Connection": "close"}
        wire.send(request("POST", "/events", body, **headers) + post(member, "known"))
        assert wire.answer().status == 201
        assert b" 201 " not in wire.rest()
    assert types(member) == ["known", "ended"]


def test_a_head_request_gets_no_body(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(request("HEAD", "/health") + request("GET", "/health"))
        head, following = wire.answer(to="HEAD"), wire.answer()
    assert (head.status in (200, 405), following.status) == (True, 200)


def test_a_client_that_would_like_another_protocol_is_answered_in_this_one(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(request("GET", "/health", Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AAMA"))
        assert wire.answer().status == 200


def test_a_target_may_be_a_whole_address(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(request("GET", f"{server.url}/health"))
        assert wire.answer().status == 200


def test_a_token_that_never_ends_harms_nobody(victim: Server) -> None:
    member = victim.organization()
    claims = {"sub": "anna", "org": member.organization, "groups": ["publishers"], "exp": 10**400}
    token = jwt.encode(claims, JWT_KEY, algorithm="HS256")
    with Wire(victim) as wire:
        wire.send(request("POST", "/events", b'{"events":[]}', Authorization=f"Bearer {token}"))
        assert wire.answer().status in (200, 401)
    assert is_well(victim)


def test_header_names_have_no_case(server: Server, member: Member) -> None:
    with Wire(server) as wire:
        wire.send(f"GET /events HTTP/1.1\r\nhOST: x\r\naUTHORIZATION: Bearer {member.token}\r\n\r\n".encode())
        assert wire.answer().status == 200


def test_the_length_of_an_answer_is_counted_in_bytes(server: Server, member: Member) -> None:
    member.publish("漢字")
    with Wire(server) as wire:
        wire.send(get(member) + get(member))
        answers: list[Any] = [wire.answer().json, wire.answer().json]
    assert [answer["eventSnapshots"][0]["type"] for answer in answers] == 2 * [["漢字"]]


def test_a_large_answer_comes_whole_however_slowly_it_is_read(server: Server, member: Member) -> None:
    fill(member)
    with Wire(server) as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        wire.send(get(member))
        assert is_well(server)
        assert len(wire.answer().json["eventSnapshots"]) == LARGE_EVENTS
        wire.send(get(member, "/events?limit=1"))
        assert wire.answer().status == 200


@pytest.mark.parametrize(
    ("path", "organization", "status"),
    [
        ("/organizations/%61cme", "acme", 201),
        ("/organizations/%41-%5f", "A-_", 201),
        ("/organizations/a%2Fb", "a/b", 400),
        ("/organizations/caf%C3%A9", "café", 400),
        ("/organizations/%ff", "\ufffd", 400),
        ("/organizations/a+b", "a+b", 400),
        ("/organizations/a%20b", "a b", 400),
        ("/organizations/%", "%", 400),
        ("/organizations/a%00b", "a\x00b", 400),
        ("/organizations/..", "..", 400),
    ],
)
def test_a_path_is_percent_decoded(path: str, organization: str, status: int, server: Server) -> None:
    member = server.member(organization)
    with Wire(server) as wire:
        wire.send(request("PUT", path, Authorization=f"Bearer {member.token}"))
        answer = wire.answer()
    assert answer.status == status, answer.body
    assert status == 400 or answer.json["organization"] == organization


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("types=%C3%A4%2F%3F", ["ä/b"]),
        ("types=%2A&keys=%2Fk%20+1", ["ä/b"]),
        ("keys=/k%20%201", ["ä/b"]),
        ("types=c;types=d", []),
        ("types=c&", ["c"]),
        ("&&types=c", ["c"]),
    ],
)
def test_a_query_is_percent_decoded(query: str, found: list[str], server: Server, member: Member) -> None:
    member.post({"events": [{"type": ["ä", "b"], "key": "/k  1"}, {"type": ["c"]}]})
    with Wire(server) as wire:
        wire.send(get(member, f"/events?{query}"))
        answer = wire.answer()
    assert ["/".join(event["type"]) for event in answer.json.get("eventSnapshots", [])] == found
