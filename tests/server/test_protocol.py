"""HTTP/1.1 of the embedded server over sockets: valid, split and invalid requests."""

import json
import socket
from typing import Any

import jwt
import pytest

from infra.server.http.protocol import MAX_BODY_BYTES, MAX_HEAD_BYTES
from tests.server.raw_connection import (
    LARGE_EVENTS,
    RawConnection,
    get,
    post,
    publish_large_events,
    request,
)
from tests.serving import JWT_KEY, Member, Server


def types(member: Member) -> list[str]:
    return [event["type"][0] for event in member.read_log()["events"]]


def is_serving(server: Server) -> bool:
    """Whether the server answers another client."""
    with RawConnection(server) as wire:
        wire.send(request("GET", "/health", Connection="close"))
        return wire.response().status == 200


def test_connection_stays_open_between_requests(server: Server, member: Member) -> None:
    with RawConnection(server) as wire:
        for number in range(3):
            wire.send(post(member, str(number)))
            assert wire.response().status == 201
    assert types(member) == ["0", "1", "2"]


def test_pipelined_requests_are_answered_in_order(server: Server, member: Member) -> None:
    with RawConnection(server) as wire:
        wire.send(post(member, "a") + get(member) + post(member, "b") + post(member, "c") + get(member))
        answers = [wire.response() for _ in range(5)]
    assert [answer.status for answer in answers] == [201, 200, 201, 201, 200]
    assert [[event["type"][0] for event in answers[i].json["eventSnapshots"]] for i in (1, 4)] == [
        ["a"],
        ["a", "b", "c"],
    ]


def test_thousands_of_pipelined_requests_are_all_answered(victim: Server) -> None:
    with RawConnection(victim) as wire:
        wire.send(request("POST", "/x") * 2_000)
        assert {wire.response().status for _ in range(2_000)} == {404}
    assert is_serving(victim)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_path_of_thousands_of_slashes_is_404(method: str, victim: Server) -> None:
    with RawConnection(victim) as wire:
        wire.send(request(method, "/" * 5_000))
        assert wire.response().status == 404
    assert is_serving(victim)


def test_thousands_of_upgrade_requests_are_all_answered(victim: Server) -> None:
    member = victim.organization()
    head, _, body = post(member, "a", Expect="100-continue").partition(b"\r\n\r\n")
    wish = b"POST /x HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n"
    with RawConnection(victim) as wire:
        wire.send(head + b"\r\n\r\n")
        assert wire.response().status == 100
        wire.send(body + wish * 2_000)
        assert wire.response().status == 201
        assert {wire.response().status for _ in range(2_000)} == {404}
    assert is_serving(victim)


def test_hundreds_of_pipelined_appends_are_all_written(victim: Server) -> None:
    member = victim.organization()
    with RawConnection(victim) as wire:
        wire.send(b"".join(post(member, str(number)) for number in range(300)))
        assert {wire.response().status for _ in range(300)} == {201}
    assert types(member) == [str(number) for number in range(300)]


def test_request_sent_byte_by_byte_is_answered(server: Server, member: Member) -> None:
    with RawConnection(server) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(member, "a"):
            wire.send(bytes([byte]))
        assert wire.response().status == 201
    assert types(member) == ["a"]


def test_large_body_sent_with_its_head_is_written(server: Server, member: Member) -> None:
    body = json.dumps({"events": [{"type": ["a"], "payload": {"type": "json", "data": "x" * 340_000}}]}).encode()
    with RawConnection(server) as wire:
        for _ in range(5):
            wire.send(request("POST", "/events", body, Authorization=f"Bearer {member.token}"))
            answer = wire.response()
            assert answer.status == 201, answer.body
    assert types(member) == ["a"] * 5


def test_chunked_body_is_written(server: Server, member: Member) -> None:
    head = request("POST", "/events", Authorization=f"Bearer {member.token}", Transfer_Encoding="chunked")
    head = head.replace(b"Content-Length: 0\r\n", b"")
    chunks = [b'{"events":[{"ty', b'pe":["', "漢".encode()[:1], "漢".encode()[1:], b'"]}]}']
    with RawConnection(server) as wire:
        wire.send(head)
        for chunk in chunks:
            wire.send(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        wire.send(b"0\r\n\r\n" + get(member))
        assert [wire.response().status, wire.response().status] == [201, 200]
    assert types(member) == ["漢"]


def test_expect_continue_is_answered_100(server: Server, member: Member) -> None:
    whole = post(member, "a", Expect="100-continue")
    head, _, body = whole.partition(b"\r\n\r\n")
    with RawConnection(server) as wire:
        wire.send(head + b"\r\n\r\n")
        assert wire.response().status == 100
        wire.send(body)
        assert wire.response().status == 201
    assert types(member) == ["a"]


def test_expect_continue_with_too_large_body_is_413(server: Server, member: Member) -> None:
    length = str(MAX_BODY_BYTES + 1)
    head = request(
        "POST", "/events", Authorization=f"Bearer {member.token}", Expect="100-continue", Content_Length=length
    )
    with RawConnection(server) as wire:
        wire.send(head)
        assert (wire.response().status, wire.read_to_end()) == (413, b"")


@pytest.mark.parametrize("chunked", [False, True])
def test_body_over_two_megabytes_is_413(chunked: bool, server: Server, member: Member) -> None:
    size = MAX_BODY_BYTES + 1_000_000
    how = {"Transfer_Encoding": "chunked"} if chunked else {"Content_Length": str(size)}
    head = request("POST", "/events", Authorization=f"Bearer {member.token}", **how)
    body = b"x" * size
    with RawConnection(server) as wire:
        wire.send(head.replace(b"Content-Length: 0\r\n", b"") + (f"{size:x}\r\n".encode() if chunked else b"") + body)
        answer = wire.response()
    assert (answer.status, answer.headers["connection"], answer.json["detail"]) == (
        413,
        "close",
        f"the body is larger than {MAX_BODY_BYTES} bytes",
    )
    assert types(member) == []


def test_body_of_two_megabytes_is_parsed(server: Server, member: Member) -> None:
    with RawConnection(server) as wire:
        body = b" " * MAX_BODY_BYTES
        wire.send(request("POST", "/events", body, Authorization=f"Bearer {member.token}"))
        answer = wire.response()
    assert (answer.status, answer.json["detail"].startswith("the body is not valid JSON")) == (400, True)


TOO_LONG_HEADS = {
    "one header": request("GET", "/health", X="x" * 3 * MAX_HEAD_BYTES),
    "many headers": request("GET", "/health", **{f"X{i}": "x" * 1_000 for i in range(200)}),
    "a target": request("GET", "/" + "x" * 3 * MAX_HEAD_BYTES),
    "an endless header": b"GET /health HTTP/1.1\r\nX: " + b"x" * 3 * MAX_HEAD_BYTES,
    "an endless target": b"GET /" + b"x" * 3 * MAX_HEAD_BYTES,
    "an endless header name": b"GET /health HTTP/1.1\r\n" + b"x" * 3 * MAX_HEAD_BYTES,
}


@pytest.mark.parametrize("data", TOO_LONG_HEADS.values(), ids=TOO_LONG_HEADS.keys())
def test_endless_head_is_431(data: bytes, server: Server) -> None:
    with RawConnection(server) as wire:
        wire.send(data)
        answer = wire.response()
    assert (answer.status, answer.headers["connection"]) == (431, "close")
    assert is_serving(server)


def test_long_headers_are_accepted(server: Server) -> None:
    with RawConnection(server) as wire:
        for _ in range(3):
            wire.send(request("GET", "/health", X="x" * (MAX_HEAD_BYTES - 1_000)))
            assert wire.response().status == 200


INVALID = {
    "plain text": b"hello, is anybody there?\r\n\r\n",
    "empty lines": b"\r\n\r\n\r\nhello\r\n\r\n",
    "zeros": b"\x00" * 100,
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\x5a" * 200,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another version": b"GET /health HTTP/9.9\r\n\r\n",
    "no Host header": b"GET /health HTTP/1.1\r\n\r\n",
    "an unknown method": b"FETCH /health HTTP/1.1\r\n\r\n",
    "a length that is not a number": b"POST /events HTTP/1.1\r\nContent-Length: ten\r\n\r\n",
    "a negative length": b"POST /events HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST /events HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a length and chunks": b"POST /events HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an invalid chunk size": b"POST /events HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "a header without a colon": b"GET /health HTTP/1.1\r\nhello\r\n\r\n",
    "a space before the colon": b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n",
    "a target with a space": b"GET /health and more HTTP/1.1\r\n\r\n",
    "CONNECT": b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
}


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID.keys())
def test_invalid_request_is_400_and_closes_the_connection(data: bytes, server: Server) -> None:
    with RawConnection(server) as wire:
        wire.send(data)
        answer = wire.response()
        assert (answer.status, answer.headers["content-type"], answer.headers["connection"], wire.read_to_end()) == (
            400,
            "application/problem+json",
            "close",
            b"",
        )
    assert is_serving(server)


def test_requests_before_an_invalid_one_are_answered(victim: Server) -> None:
    member = victim.organization()
    with RawConnection(victim) as wire:
        wire.send(post(member, "a") + b"hello\r\n\r\n")
        assert [wire.response().status, wire.response().status] == [201, 400]
    assert types(member) == ["a"]


def test_head_request_gets_no_body(server: Server) -> None:
    with RawConnection(server) as wire:
        wire.send(request("HEAD", "/health") + request("GET", "/health"))
        head, following = wire.response(method="HEAD"), wire.response()
    assert (head.status in (200, 405), following.status) == (True, 200)


def test_upgrade_request_is_answered_in_http_1_1(server: Server) -> None:
    with RawConnection(server) as wire:
        wire.send(request("GET", "/health", Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AAMA"))
        assert wire.response().status == 200


def test_absolute_url_as_target_is_accepted(server: Server) -> None:
    with RawConnection(server) as wire:
        wire.send(request("GET", f"{server.url}/health"))
        assert wire.response().status == 200


def test_token_with_huge_expiry_leaves_server_running(victim: Server) -> None:
    member = victim.organization()
    claims = {"sub": "anna", "org": member.organization, "groups": ["publishers"], "exp": 10**400}
    token = jwt.encode(claims, JWT_KEY, algorithm="HS256")
    with RawConnection(victim) as wire:
        wire.send(request("POST", "/events", b'{"events":[]}', Authorization=f"Bearer {token}"))
        assert wire.response().status in (200, 401)
    assert is_serving(victim)


def test_header_names_are_case_insensitive(server: Server, member: Member) -> None:
    with RawConnection(server) as wire:
        wire.send(f"GET /events HTTP/1.1\r\nhOST: x\r\naUTHORIZATION: Bearer {member.token}\r\n\r\n".encode())
        assert wire.response().status == 200


def test_content_length_counts_bytes(server: Server, member: Member) -> None:
    member.publish("漢字")
    with RawConnection(server) as wire:
        wire.send(get(member) + get(member))
        answers: list[Any] = [wire.response().json, wire.response().json]
    assert [answer["eventSnapshots"][0]["type"] for answer in answers] == 2 * [["漢字"]]


def test_large_response_reaches_a_slow_client(server: Server, member: Member) -> None:
    publish_large_events(member)
    with RawConnection(server) as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        wire.send(get(member))
        assert is_serving(server)
        assert len(wire.response().json["eventSnapshots"]) == LARGE_EVENTS
        wire.send(get(member, "/events?limit=1"))
        assert wire.response().status == 200


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
def test_path_is_percent_decoded(path: str, organization: str, status: int, server: Server) -> None:
    member = server.member(organization)
    with RawConnection(server) as wire:
        wire.send(request("PUT", path, Authorization=f"Bearer {member.token}"))
        answer = wire.response()
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
def test_query_is_percent_decoded(query: str, found: list[str], server: Server, member: Member) -> None:
    member.post({"events": [{"type": ["ä", "b"], "key": "/k  1"}, {"type": ["c"]}]})
    with RawConnection(server) as wire:
        wire.send(get(member, f"/events?{query}"))
        answer = wire.response()
    assert ["/".join(event["type"]) for event in answer.json.get("eventSnapshots", [])] == found


def test_rejected_upload_can_be_sent_to_its_end(server: Server, member: Member) -> None:
    """A connection that is closed at once is reset by the rest of the body, and the client may lose the response."""
    size = MAX_BODY_BYTES + 1_000_000
    head = request("POST", "/events", Authorization=f"Bearer {member.token}", Content_Length=str(size))
    with RawConnection(server) as wire:
        wire.send(head)
        assert (wire.response().status, wire.read_to_end()) == (413, b"")
        for _ in range(size // 65536):
            wire.socket.sendall(b"x" * 65536)
        assert wire.socket.recv(1) == b""
