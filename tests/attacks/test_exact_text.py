"""Text that means something to other programs is stored as it is, found by itself alone, and given back exactly."""

import json
from typing import Any
from urllib.parse import quote

from tests.attacks.inputs import asked, throw
from tests.server.crowd import Got
from tests.serving import Member

TEXTS = [
    "..",
    "/../../etc/passwd",
    "/a/../b",
    "/b",
    "/a//b",
    "/a/./b",
    "%2e%2e%2f",
    "%00",
    "\x00",
    "a\x00b",
    "a\r\nSet-Cookie: x=1\r\n\r\nb",
    "data: x\n\nid: 1\nevent: Torn\n\n",
    "\n",
    "\t",
    "\x1b[2J",
    "\x7f\x80\x9f",
    "\u2028\u2029",
    "\ufeff",
    "\ufffd",
    "\uffff",
    "\U0010ffff",
    "\u202egpj.exe",
    "\u2066a\u2069",
    "e\u0301",
    "\u00e9",
    "\u212a",
    "K",
    "k",
    "' OR '1'='1",
    '"; DROP TABLE log; --',
    '","key":"/b","',
    "\\",
    '\\"',
    "${jndi:ldap://x}",
    "{{7*7}}",
    "<script>alert(1)</script>",
    "a" * 900,
    "/".join(["a"] * 450),
    "null",
    "true",
    " ",
]


def test_each_is_found_by_itself_alone_and_comes_back_as_it_was(member: Member) -> None:
    events = [{"type": ["exact", *_subtypes(text)], "key": text} for text in TEXTS]
    answer = member.post({"events": events})
    assert answer.status_code == 201, answer.text
    for text, event in zip(TEXTS, events, strict=True):
        (found,) = _events(_asked(member, f"/events?keys={quote(text, safe='')}"))
        assert (found["key"], found["type"]) == (text, event["type"])


def test_each_is_told_exactly_in_every_format(member: Member) -> None:
    assert member.post({"events": [{"type": ["exact"], "key": text} for text in TEXTS]}).status_code == 201
    for accept in ("application/json", "application/x-ndjson", "text/event-stream"):
        told = _events(_asked(member, "/events?timeout=0s", f"Accept: {accept}"))
        assert [event["key"] for event in told] == TEXTS


def test_a_path_is_not_what_it_would_be_in_a_file_system(member: Member) -> None:
    orders = [f"{chain},1" for chain in ("/a/../b", "/b", "/a/./b", "/a/b", "/a%2Fb", "/A/b", "/a\\b")]
    body = {"events": [{"TYPE": "OrderAdded", "key": order, "nodeId": f"{n}"} for n, order in enumerate(orders)]}
    answer = member.ask("POST", "/events/scheduler", json=body)
    assert answer.status_code == 201, answer.text
    found = [_asked(member, f"/objects/order{quote(order)}").json for order in orders]
    assert [one["path"] for one in found] == orders


def _subtypes(text: str) -> list[str]:
    kept = "".join(character for character in text[:400] if character not in "?*/")
    return [kept] if kept else []


def _asked(member: Member, target: str, *lines: str) -> Got:
    head = f"Host: annals\r\nAuthorization: Bearer {member.token}\r\n".encode()
    (got,) = throw(("127.0.0.1", member.server.port), asked("GET", target, head, lines))
    assert got.is_whole
    return got


def _events(got: Got) -> list[dict[str, Any]]:
    assert got.status == 200, got.body
    match got.headers["content-type"]:
        case "application/json":
            found: list[dict[str, Any]] = got.json["eventSnapshots"]
            return found
        case "application/x-ndjson":
            return [json.loads(line) for line in got.body.split(b"\n") if line]
        case _:
            frames = [frame for frame in got.body.decode().split("\n\n") if "data: " in frame]
            return [json.loads(frame.partition("data: ")[2]) for frame in frames]
