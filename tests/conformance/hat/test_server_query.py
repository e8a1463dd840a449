"""Hat's server query (H-Q17 to H-Q26)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import Member, Server, run_server


@pytest.fixture(scope="module")
def hat(server: Server) -> Member:
    """Hat's fixture: server 1 has the events 1.1.1 a/b, 1.1.2 a/c, 1.2.1 a/b, 1.3.1 x, and server 2 has one event."""
    member = server.organization()
    member.publish("a/b", "a/c")
    member.publish("a/b")
    member.publish("x")
    other = server.organization()
    other.publish("a/b")
    return server.member(member.organization, other.organization)


@pytest.fixture(scope="module")
def limited_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that returns at most three events."""
    with run_server(tmp_path_factory.mktemp("limited_server"), MOST_RESULTS="3") as running:
        yield running


def parse_result(answer: dict[str, Any]) -> tuple[list[str], bool]:
    """The ids of the events without the server, and whether more follow."""
    ids = [f"{event['id']['session']}.{event['id']['instance']}" for event in answer["events"]]
    return ids, answer["moreFollows"]


@pytest.mark.parametrize(
    ("last", "max_results", "expected"),
    [
        pytest.param(None, None, (["1.1", "1.2", "2.1", "3.1"], False), id="H-Q17"),
        pytest.param(None, 1, (["1.1"], True), id="H-Q18"),
        pytest.param("1.1", None, (["1.2", "2.1", "3.1"], False), id="H-Q19"),
        pytest.param("1.99", None, (["2.1", "3.1"], False), id="H-Q20"),
        pytest.param("3.1", None, ([], False), id="H-Q21"),
        pytest.param("0.0", None, (["1.1", "1.2", "2.1", "3.1"], False), id="H-Q/before-the-first"),
        pytest.param("0.7", None, (["1.1", "1.2", "2.1", "3.1"], False), id="H-Q/instance-of-no-session"),
        pytest.param("1.0", None, (["1.1", "1.2", "2.1", "3.1"], False), id="H-Q/instance-0"),
        pytest.param("2.0", None, (["2.1", "3.1"], False), id="H-Q/instance-0-of-the-second"),
        pytest.param("1.2", None, (["2.1", "3.1"], False), id="H-Q/last-of-a-session"),
        pytest.param("9.9", None, ([], False), id="H-Q/future"),
        pytest.param(None, 0, ([], True), id="H-Q12"),
        pytest.param("3.1", 0, ([], False), id="H-Q/none-of-none"),
        pytest.param(None, 2, (["1.1", "1.2"], True), id="H-Q10"),
        pytest.param(None, 3, (["1.1", "1.2", "2.1"], True), id="H-Q/three-of-four"),
        pytest.param(None, 4, (["1.1", "1.2", "2.1", "3.1"], False), id="H-Q/all-there-are"),
        pytest.param(None, 5, (["1.1", "1.2", "2.1", "3.1"], False), id="H-Q/more-than-there-are"),
        pytest.param("1.1", 1, (["1.2"], True), id="H-Q/within-a-session"),
        pytest.param("1.1", 2, (["1.2", "2.1"], True), id="H-Q/across-sessions"),
        pytest.param("1.2", 1, (["2.1"], True), id="H-Q/next-session"),
        pytest.param("1.2", 2, (["2.1", "3.1"], False), id="H-Q/exactly-the-rest"),
        pytest.param("1.99", 1, (["2.1"], True), id="H-Q/after-none-such"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_server_query_returns_events_in_order_of_ids(
    method: str, last: str | None, max_results: int | None, expected: tuple[list[str], bool], hat: Member
) -> None:
    server_number = hat.create()
    parameters = {
        "server": server_number,
        **({} if last is None else {"lastEventId": f"{server_number}.{last}"}),
        **({} if max_results is None else {"maxResults": max_results}),
    }
    answer = hat.request(method, "/events/server", **{"params" if method == "GET" else "json": parameters})
    assert (answer.status_code, parse_result(answer.json())) == (200, expected)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_server_query_rejects_id_of_another_server(method: str, hat: Member) -> None:  # H-Q22
    server_number = hat.create()
    parameters = {"server": server_number, "lastEventId": f"{server_number + 1}.1.1"}
    answer = hat.request(method, "/events/server", **{"params" if method == "GET" else "json": parameters})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        f"lastEventId {server_number + 1}.1.1 belongs to server {server_number + 1}, not to server {server_number}",
    )


def test_server_query_accepts_id_object(hat: Member) -> None:
    server_number = hat.create()
    last = {"server": server_number, "session": 1, "instance": 2}
    answer = hat.request("POST", "/events/server", json={"lastEventId": last})
    assert (answer.status_code, parse_result(answer.json())) == (200, (["2.1", "3.1"], False))


@pytest.mark.parametrize(
    ("stored", "max_results", "expected"),
    [
        pytest.param(4, None, (["1.1", "2.1", "3.1"], True), id="H-Q25"),
        pytest.param(4, 4, (["1.1", "2.1", "3.1"], True), id="H-Q25/more-asked-than-allowed"),
        pytest.param(3, None, (["1.1", "2.1", "3.1"], False), id="H-Q25/just-allowed"),
        pytest.param(0, 2, ([], False), id="H-Q26/0"),
        pytest.param(1, 2, (["1.1"], False), id="H-Q26/1"),
        pytest.param(2, 2, (["1.1", "2.1"], False), id="H-Q26/2"),
        pytest.param(3, 2, (["1.1", "2.1"], True), id="H-Q26/3"),
    ],
)
def test_server_query_respects_both_limits(
    stored: int, max_results: int | None, expected: tuple[list[str], bool], limited_server: Server
) -> None:
    member = limited_server.organization()
    for _ in range(stored):
        member.publish("a")
    answer = member.get("/events/server", params={} if max_results is None else {"maxResults": max_results})
    assert (answer.status_code, parse_result(answer.json())) == (200, expected)


def test_server_query_limit_counts_events_not_commits(limited_server: Server) -> None:  # H-Q26
    member = limited_server.organization()
    events = member.publish("a", "b", "c", "d")
    server_number = events[0]["id"]["server"]
    first = member.get("/events/server").json()
    rest = member.get("/events/server", params={"lastEventId": f"{server_number}.1.3"}).json()
    assert (first, rest) == (
        {"events": events[:3], "moreFollows": True, "eventId": events[2]["eventId"]},
        {"events": events[3:], "moreFollows": False, "eventId": events[3]["eventId"]},
    )
