"""The end of a request is unambiguous: no request can be smuggled in, and no valid request is lost."""

import pytest

from tests.attacks.hostile_requests import CHUNKED, SMUGGLED, build_request, send_raw
from tests.server.raw_connection import RawConnection, get, post
from tests.serving import Member, Server

CHUNKS = b"%x\r\n%b\r\n0\r\n" % (len(SMUGGLED), SMUGGLED)
HOST = b"Host: annals\r\n"


def head(member: Member) -> bytes:
    return HOST + f"Authorization: Bearer {member.token}\r\n".encode()


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
@pytest.mark.parametrize("framed", ["by its length", "in chunks"])
def test_body_of_upgrade_request_belongs_to_the_request(
    protocol: str, framed: str, server: Server, member: Member
) -> None:
    upgrade = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}", "HTTP2-Settings: AAMA")
    with RawConnection(server) as connection:
        if framed == "in chunks":
            connection.send(build_request("POST", "/events", head(member), (*upgrade, CHUNKED)) + CHUNKS + b"\r\n")
        else:
            connection.send(build_request("POST", "/events", head(member), upgrade, SMUGGLED))
        connection.send(post(member, "next") + get(member))
        assert [connection.response().status for _ in range(3)] == [201, 201, 200]
    assert [event["type"] for event in member.read_log()["events"]] == [["smuggled"], ["next"]]


@pytest.mark.parametrize(
    ("trailer", "before", "status"),
    [
        ("Authorization", HOST, 401),
        ("X-Organization", None, 201),
        ("Content-Length", None, 400),
        ("Idempotency-Key", None, 201),
    ],
)
def test_trailers_are_not_request_headers(trailer: str, before: bytes | None, status: int, member: Member) -> None:
    value = {"Authorization": f"Bearer {member.token}", "X-Organization": "elsewhere", "Content-Length": "1"}
    lines = f"{trailer}: {value.get(trailer, 'k')}\r\n\r\n".encode()
    data = build_request("POST", "/events", before or head(member), (CHUNKED,)) + CHUNKS + lines
    address = ("127.0.0.1", member.server.port)
    assert [[response.status for response in send_raw(address, data)] for _ in range(2)] == [[status], [status]]


def test_requests_after_malformed_request_are_not_processed(member: Member) -> None:
    broken = build_request("POST", "/events", head(member), (CHUNKED, "Content-Length: 5")) + b"0\r\n\r\n"
    data = post(member, "first") + broken + post(member, "smuggled")
    assert [response.status for response in send_raw(("127.0.0.1", member.server.port), data)] == [201, 400]
    assert [event["type"] for event in member.read_log()["events"]] == [["first"]]


def test_chunked_body_in_http_1_0_is_rejected(member: Member) -> None:
    """A proxy that ignores Transfer-Encoding in HTTP/1.0 takes the chunks for the next request."""
    request = build_request("POST", "/events", head(member), (CHUNKED,)) + CHUNKS + b"\r\n"
    old = request.replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    address = ("127.0.0.1", member.server.port)
    assert [[response.status for response in send_raw(address, data)] for data in (old, request)] == [[400], [201]]
    assert [event["type"] for event in member.read_log()["events"]] == [["smuggled"]]
