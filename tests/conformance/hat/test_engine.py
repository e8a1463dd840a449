"""Hat's engine: registering events (H-E) and payloads (H-C)."""

import json
from collections.abc import Iterator

import pytest

from chalicelib.domain import timestamps
from tests.serving import Member, Server, run_server


@pytest.fixture(scope="module", name="server")
def separate_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A separate server, because /health lists only the first logs."""
    with run_server(tmp_path_factory.mktemp("few")) as running:
        yield running


@pytest.fixture
def server_number(member: Member) -> int:
    """The server number of the member's log."""
    return member.create()


def test_register_no_events_uses_no_session(member: Member, server_number: int) -> None:  # H-E05
    answer = member.post({"events": []})
    assert (answer.status_code, answer.json()) == (200, {"events": [], "eventId": 0})
    (registered,) = member.publish("a")
    assert registered["id"] == {"server": server_number, "session": 1, "instance": 1}


def test_register_together_shares_session_and_time(member: Member, server_number: int) -> None:  # H-E06
    answer = member.post({"events": [{"type": ["a", str(i)]} for i in range(1, 6)]})
    at = answer.json()["eventId"] - 4
    assert (answer.status_code, answer.json()["events"]) == (
        201,
        [
            {
                "id": {"server": server_number, "session": 1, "instance": i},
                "eventId": at + i - 1,
                "position": i,
                "type": ["a", str(i)],
                "key": None,
                "timestamp": timestamps.iso(at),
                "sourceTimestamp": None,
                "payload": None,
                "tags": [],
            }
            for i in range(1, 6)
        ],
    )


def test_register_each_request_is_a_session(member: Member) -> None:
    sessions = [event["id"]["session"] for _ in range(3) for event in member.publish("a", "b")]
    assert sessions == [1, 1, 2, 2, 3, 3]


def test_last_event_id_of_empty_log_is_zero(server: Server, member: Member, server_number: int) -> None:  # H-E07
    assert _head(server, server_number) == {"id": {"server": server_number, "session": 0, "instance": 0}, "eventId": 0}
    registered = member.publish("a", "b")
    assert _head(server, server_number) == {"id": registered[-1]["id"], "eventId": registered[-1]["eventId"]}


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(
            {"type": "json", "data": [{}, None, [], True, False, 1, 2.5, "123"]},
            id="H-C05/json",
        ),
        pytest.param({"type": "json", "data": None}, id="H-C05/null"),
        pytest.param({"type": "binary", "name": "abc", "data": "MTIz"}, id="H-C05/binary"),
        pytest.param(None, id="H-C05/none"),
        pytest.param({"type": "json", "data": {"ключ": '\u2028\n"\\é\U0001f600', "n": 2**80}}, id="H-C/text"),
    ],
)
def test_payload_is_returned_unchanged(payload: object, member: Member) -> None:
    answer = member.post({"events": [{"type": ["a"], "payload": payload}]})
    assert answer.status_code == 201
    read = member.get("/events").json()["eventSnapshots"] + member.read_log()["events"]
    assert [json.dumps(event["payload"]) for event in read] == 2 * [json.dumps(payload)]


def _head(server: Server, server_number: int) -> object:
    (head,) = server.client.get("/health", params={"after": server_number - 1, "limit": 1}).json()["heads"]
    return head
