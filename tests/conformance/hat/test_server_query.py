"""Hat's server query (H-Q17 to H-Q26)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import Member, Server, serving


@pytest.fixture(scope="module")
def hat(server: Server) -> Member:
    """Hat's fixture: of server 1 the events 1.1.1 a/b, 1.1.2 a/c, 1.2.1 a/b, 1.3.1 x; of server 2 one."""
    member = server.organization()
    member.publish("a/b", "a/c")
    member.publish("a/b")
    member.publish("x")
    other = server.organization()
    other.publish("a/b")
    return server.member(member.organization, other.organization)


@pytest.fixture(scope="module")
def capped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose answers have at most three events."""
    with serving(tmp_path_factory.mktemp("capped"), MOST_RESULTS="3") as running:
        yield running


def told(answer: dict[str, Any]) -> tuple[list[str], bool]:
    """The ids without their server, and whether more follow."""
    ids = [f"{event['id']['session']}.{event['id']['instance']}" for event in answer["events"]]
    return ids, answer["moreFollows"]


@pytest.mark.parametrize(
    ("last", "most", "expected"),
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
def test_the_events_of_a_server_come_in_the_order_of_their_ids(
    method: str, last: str | None, most: int | None, expected: tuple[list[str], bool], hat: Member
) -> None:
    number = hat.create()
    parameters = {
        "server": number,
        **({} if last is None else {"lastEventId": f"{number}.{last}"}),
        **({} if most is None else {"maxResults": most}),
    }
    answer = hat.ask(method, "/events/server", **{"params" if method == "GET" else "json": parameters})
    assert (answer.status_code, told(answer.json())) == (200, expected)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_last_event_must_be_of_the_server(method: str, hat: Member) -> None:  # H-Q22
    number = hat.create()
    parameters = {"server": number, "lastEventId": f"{number + 1}.1.1"}
    answer = hat.ask(method, "/events/server", **{"params" if method == "GET" else "json": parameters})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        f"lastEventId {number + 1}.1.1 is an event of another server than {number}",
    )


def test_an_id_may_be_an_object(hat: Member) -> None:
    number = hat.create()
    last = {"server": number, "session": 1, "instance": 2}
    answer = hat.ask("POST", "/events/server", json={"lastEventId": last})
    assert (answer.status_code, told(answer.json())) == (200, (["2.1", "3.1"], False))


@pytest.mark.parametrize(
    ("stored", "most", "expected"),
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
def test_an_answer_has_as_many_events_as_asked_for_and_allowed(
    stored: int, most: int | None, expected: tuple[list[str], bool], capped: Server
) -> None:
    member = capped.organization()
    for _ in range(stored):
        member.publish("a")
    answer = member.get("/events/server", params={} if most is None else {"maxResults": most})
    assert (answer.status_code, told(answer.json())) == (200, expected)


def test_the_events_of_one_request_count_one_by_one(capped: Server) -> None:  # H-Q26
    member = capped.organization()
    events = member.publish("a", "b", "c", "d")
    number = events[0]["id"]["server"]
    first = member.get("/events/server").json()
    rest = member.get("/events/server", params={"lastEventId": f"{number}.1.3"}).json()
    assert (first, rest) == (
        {"events": events[:3], "moreFollows": True, "eventId": events[2]["eventId"]},
        {"events": events[3:], "moreFollows": False, "eventId": events[3]["eventId"]},
    )
