"""Where a request ends, and what belongs to it, is beyond doubt: nothing is smuggled in, and nothing honest is lost."""

import pytest

from tests.attacks.inputs import CHUNKED, SMUGGLED, asked, throw
from tests.server.wire import Wire, get, post
from tests.serving import Member, Server

CHUNKS = b"%x\r\n%b\r\n0\r\n" % (len(SMUGGLED), SMUGGLED)
HOST = b"Host: annals\r\n"


def head(member: Member) -> bytes:
    """The headers that let somebody in."""
    return HOST + f"Authorization: Bearer {member.token}\r\n".encode()


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
@pytest.mark.parametrize("framed", ["by its length", "in chunks"])
def test_a_body_sent_with_a_wish_for_another_protocol_belongs_to_its_request(
    protocol: str, framed: str, server: Server, member: Member
) -> None:
    wish = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}", "HTTP2-Settings: AAMA")
    with Wire(server) as wire:
        if framed == "in chunks":
            wire.send(asked("POST", "/events", head(member), (*wish, CHUNKED)) + CHUNKS + b"\r\n")
        else:
            wire.send(asked("POST", "/events", head(member), wish, SMUGGLED))
        wire.send(post(member, "next") + get(member))
        assert [wire.answer().status for _ in range(3)] == [201, 201, 200]
    assert [event["type"] for event in member.stored()["events"]] == [["smuggled"], ["next"]]


@pytest.mark.parametrize(
    ("trailer", "before", "status"),
    [
        ("Authorization", HOST, 401),
        ("X-Organization", None, 201),
        ("Content-Length", None, 400),
        ("Idempotency-Key", None, 201),
    ],
)
def test_what_trails_a_body_says_nothing_about_its_request(
    trailer: str, before: bytes | None, status: int, member: Member
) -> None:
    value = {"Authorization": f"Bearer {member.token}", "X-Organization": "elsewhere", "Content-Length": "1"}
    lines = f"{trailer}: {value.get(trailer, 'k')}\r\n\r\n".encode()
    data = asked("POST", "/events", before or head(member), (CHUNKED,)) + CHUNKS + lines
    address = ("127.0.0.1", member.server.port)
    assert [[got.status for got in throw(address, data)] for _ in range(2)] == [[status], [status]]


def test_what_was_read_before_garbage_is_all_that_is_done(member: Member) -> None:
    """What follows a request that has no clear end is no request."""
    broken = asked("POST", "/events", head(member), (CHUNKED, "Content-Length: 5")) + b"0\r\n\r\n"
    data = post(member, "first") + broken + post(member, "smuggled")
    assert [got.status for got in throw(("127.0.0.1", member.server.port), data)] == [201, 400]
    assert [event["type"] for event in member.stored()["events"]] == [["first"]]
