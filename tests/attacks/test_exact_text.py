"""Text with a meaning in other formats is stored, found and returned unchanged."""

import json
from typing import Any
from urllib.parse import quote

from tests.attacks.hostile_requests import build_request, send_raw
from tests.server.client_group import ReceivedResponse
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


def test_key_with_special_text_is_found_and_unchanged(member: Member) -> None:
    events = [{"type": ["exact", *_subtypes(text)], "key": text} for text in TEXTS]
    response = member.post({"events": events})
    assert response.status_code == 201, response.text
    for text, event in zip(TEXTS, events, strict=True):
        (stored,) = _events(_get(member, f"/events?keys={quote(text, safe='')}"))
        assert (stored["key"], stored["type"]) == (text, event["type"])


def test_special_text_is_unchanged_in_every_format(member: Member) -> None:
    assert member.post({"events": [{"type": ["exact"], "key": text} for text in TEXTS]}).status_code == 201
    for accept in ("application/json", "application/x-ndjson", "text/event-stream"):
        events = _events(_get(member, "/events?timeout=0s", f"Accept: {accept}"))
        assert [event["key"] for event in events] == TEXTS


def test_object_paths_are_not_normalized(member: Member) -> None:
    orders = [f"{chain},1" for chain in ("/a/../b", "/b", "/a/./b", "/a/b", "/a%2Fb", "/A/b", "/a\\b")]
    body = {"events": [{"TYPE": "OrderAdded", "key": order, "nodeId": f"{n}"} for n, order in enumerate(orders)]}
    response = member.request("POST", "/events/scheduler", json=body)
    assert response.status_code == 201, response.text
    objects = [_get(member, f"/objects/order{quote(order)}").json for order in orders]
    assert [order["path"] for order in objects] == orders


def _subtypes(text: str) -> list[str]:
    subtype = "".join(character for character in text[:400] if character not in "?*/")
    return [subtype] if subtype else []


def _get(member: Member, target: str, *lines: str) -> ReceivedResponse:
    head = f"Host: annals\r\nAuthorization: Bearer {member.token}\r\n".encode()
    (response,) = send_raw(("127.0.0.1", member.server.port), build_request("GET", target, head, lines))
    assert response.is_complete
    return response


def _events(response: ReceivedResponse) -> list[dict[str, Any]]:
    assert response.status == 200, response.body
    match response.headers["content-type"]:
        case "application/json":
            events: list[dict[str, Any]] = response.json["eventSnapshots"]
            return events
        case "application/x-ndjson":
            return [json.loads(line) for line in response.body.split(b"\n") if line]
        case _:
            frames = [frame for frame in response.body.decode().split("\n\n") if "data: " in frame]
            return [json.loads(frame.partition("data: ")[2]) for frame in frames]
