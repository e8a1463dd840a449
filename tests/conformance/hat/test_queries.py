"""Hat's queries latest and timeseries (H-Q01 to H-Q16, H-Q25 to H-Q33) and its payloads (H-C05)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from tests.serving import Member, Server, run_server

Result = tuple[list[str], bool]
"""Hat's names of the events, and whether more follow."""

COMMITS: list[tuple[int, dict[str, tuple[list[str], int | None]]]] = [
    (0, {"1.1.1": (["a", "b"], 100), "1.1.2": (["a", "c"], 90)}),
    (1, {"2.1.1": (["a", "b"], 95)}),
    (0, {"1.2.1": (["a", "b"], None)}),
    (0, {"1.3.1": (["x"], 80)}),
    (1, {"2.2.1": ([], None)}),
]
"""Hat's fixture F: the index of the organization; the name, type and source time in seconds of each event."""

FORWARDS = ["1.1.1", "1.1.2", "2.1.1", "1.2.1", "1.3.1", "2.2.1"]
BACKWARDS = FORWARDS[::-1]
ASCENDING = {"order": "ascending"}
BY_SOURCE = {"orderBy": "sourceTimestamp"}


@dataclass
class Hat:
    """A member of both organizations, and the events by Hat's names."""

    member: Member
    events: dict[str, dict[str, Any]]

    def resolve(self, query: dict[str, Any]) -> dict[str, Any]:
        """`query` with the names of events replaced by their ids and times."""
        return {name: self._resolve_value(name, value) for name, value in query.items()}

    def parse_result(self, answer: dict[str, Any]) -> Result:
        """The names of the returned events. Asserts that each event is returned as it was published."""
        names = {str(event["id"]): name for name, event in self.events.items()}
        returned = [names[str(event["id"])] for event in answer["events"]]
        assert answer["events"] == [self.events[name] for name in returned]
        return returned, answer["moreFollows"]

    def _resolve_value(self, name: str, value: Any) -> Any:
        if name in ("tFrom", "tTo"):
            return self.events[value]["timestamp"]
        if name == "lastEventId" and value in self.events:
            return id_text(self.events[value])
        return value.format(server=self.events["1.1.1"]["id"]["server"]) if name == "lastEventId" else value


@pytest.fixture(scope="module")
def hat(server: Server) -> Hat:
    members = [server.organization(), server.organization()]
    events: dict[str, dict[str, Any]] = {}
    for owner, commit in COMMITS:
        sent = [{"type": type_, "sourceTimestamp": seconds(at)} for type_, at in commit.values()]
        answer = members[owner].post({"events": sent})
        events |= zip(commit, answer.json()["events"], strict=True)
        advance_clock(members[owner])
    return Hat(server.member(*(member.organization for member in members)), events)


@pytest.fixture(scope="module")
def limited_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that returns at most three events."""
    with run_server(tmp_path_factory.mktemp("limited_server"), MOST_RESULTS="3") as running:
        yield running


def advance_clock(member: Member) -> None:
    """Wait until the next commit has another time."""
    member.get("/events", params={"types": "never", "timeout": "0.002s"})


def seconds(since_1970: int | None) -> Any:
    """A time in Hat's format."""
    return None if since_1970 is None else {"s": since_1970, "us": 0}


def id_text(event: dict[str, Any]) -> str:
    return f"{event['id']['server']}.{event['id']['session']}.{event['id']['instance']}"


def run_query(member: Member, query: str, parameters: dict[str, Any], **headers: str) -> dict[str, Any]:
    """Run a query by POST. Asserts that GET returns the same."""
    post = member.request("POST", f"/events/{query}", json=parameters, headers=headers)
    assert post.status_code == 200, post.text
    if parameters.get("types") != []:  # a query string cannot express an empty list
        get = member.get(f"/events/{query}", params=parameters, headers=headers)
        assert (get.status_code, get.json()) == (200, post.json())
    result: dict[str, Any] = post.json()
    return result


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param({}, (BACKWARDS, False), id="H-Q01"),
        pytest.param(ASCENDING, (FORWARDS, False), id="H-Q02"),
        pytest.param({"order": "descending", "orderBy": "timestamp"}, (BACKWARDS, False), id="H-Q03"),
        pytest.param(ASCENDING | {"tFrom": "1.2.1"}, (["1.2.1", "1.3.1", "2.2.1"], False), id="H-Q04"),
        pytest.param({"tFrom": "1.2.1"}, (["2.2.1", "1.3.1", "1.2.1"], False), id="H-Q04/descending"),
        pytest.param(ASCENDING | {"tTo": "1.2.1"}, (["1.1.1", "1.1.2", "2.1.1", "1.2.1"], False), id="H-Q/t_to"),
        pytest.param({"tTo": "2.1.1"}, (["2.1.1", "1.1.2", "1.1.1"], False), id="H-Q/t_to-descending"),
        pytest.param({"tTo": "1.1.1"}, (["1.1.2", "1.1.1"], False), id="H-Q/t_to-a-whole-commit"),
        pytest.param(ASCENDING | {"tFrom": "2.1.1", "tTo": "1.2.1"}, (["2.1.1", "1.2.1"], False), id="H-Q/t_from-t_to"),
        pytest.param({"tFrom": "2.1.1", "tTo": "2.1.1"}, (["2.1.1"], False), id="H-Q/one-moment"),
        pytest.param(ASCENDING | BY_SOURCE, (["1.3.1", "1.1.2", "2.1.1", "1.1.1"], False), id="H-Q05"),
        pytest.param(BY_SOURCE, (["1.1.1", "2.1.1", "1.1.2", "1.3.1"], False), id="H-Q06"),
        pytest.param(
            ASCENDING | BY_SOURCE | {"tFrom": "2.1.1"}, (["1.3.1", "2.1.1"], False), id="H-Q/by-source-and-t_from"
        ),
        pytest.param(
            ASCENDING | BY_SOURCE | {"tTo": "2.1.1"}, (["1.1.2", "2.1.1", "1.1.1"], False), id="H-Q/by-source-and-t_to"
        ),
        pytest.param(ASCENDING | {"types": ["a/*"]}, (FORWARDS[:4], False), id="H-Q07"),
        pytest.param(ASCENDING | {"types": ["a/?"]}, (FORWARDS[:4], False), id="H-Q07/one"),
        pytest.param({"types": []}, ([], False), id="H-Q08"),
        pytest.param({"types": ["x", "a/c"]}, (["1.3.1", "1.1.2"], False), id="H-Q09"),
        pytest.param({"types": [""]}, (["2.2.1"], False), id="H-Q09/the-empty-type"),
        pytest.param({"types": ["*"]}, (BACKWARDS, False), id="H-Q09/everything"),
        pytest.param({"types": ["y"]}, ([], False), id="H-Q09/nothing"),
        pytest.param(ASCENDING | {"maxResults": 2}, (["1.1.1", "1.1.2"], True), id="H-Q10"),
        pytest.param({"maxResults": 2}, (["2.2.1", "1.3.1"], True), id="H-Q11"),
        pytest.param({"maxResults": 6}, (BACKWARDS, False), id="H-Q11/all-there-are"),
        pytest.param({"maxResults": 5}, (BACKWARDS[:5], True), id="H-Q11/all-but-one"),
        pytest.param({"maxResults": 1, "types": ["a/c"]}, (["1.1.2"], False), id="H-Q11/all-of-a-type"),
        pytest.param({"maxResults": 0}, ([], True), id="H-Q12"),
        pytest.param({"maxResults": 0, "types": ["y"]}, ([], False), id="H-Q12/none-of-none"),
        pytest.param({"lastEventId": "{server}.9.9"}, ([], False), id="H-Q13"),
        pytest.param({"lastEventId": "{server}.1.3"}, ([], False), id="H-Q13/no-such-instance"),
        pytest.param({"lastEventId": "{server}.0.0"}, ([], False), id="H-Q13/before-the-first"),
        pytest.param(ASCENDING | {"types": ["x"], "lastEventId": "1.1.1"}, (["1.3.1"], False), id="H-Q14"),
        pytest.param(ASCENDING | {"lastEventId": "1.1.1"}, (FORWARDS[1:], False), id="H-Q/last-within-a-commit"),
        pytest.param(ASCENDING | {"lastEventId": "2.1.1"}, (FORWARDS[3:], False), id="H-Q/last-of-another-server"),
        pytest.param(ASCENDING | {"lastEventId": "2.2.1"}, ([], False), id="H-Q/last-of-all"),
        pytest.param({"lastEventId": "1.2.1"}, (["2.1.1", "1.1.2", "1.1.1"], False), id="H-Q/last-descending"),
        pytest.param({"lastEventId": "1.1.2"}, (["1.1.1"], False), id="H-Q/last-descending-within-a-commit"),
        pytest.param({"lastEventId": "1.1.1"}, ([], False), id="H-Q/first-descending"),
        pytest.param(
            ASCENDING | BY_SOURCE | {"lastEventId": "1.1.2"}, (["2.1.1", "1.1.1"], False), id="H-Q/last-by-source"
        ),
        pytest.param(
            BY_SOURCE | {"lastEventId": "2.1.1"}, (["1.1.2", "1.3.1"], False), id="H-Q/last-by-source-descending"
        ),
        pytest.param(BY_SOURCE | {"lastEventId": "1.2.1"}, ([], False), id="H-Q13/last-has-no-source-time"),
        pytest.param(
            ASCENDING | {"tFrom": "1.2.1", "lastEventId": "1.1.1"}, ([], False), id="H-Q13/last-is-out-of-bounds"
        ),
        pytest.param(
            ASCENDING | {"maxResults": 2, "lastEventId": "1.1.2"},
            (["2.1.1", "1.2.1"], True),
            id="H-Q/last-and-max_results",
        ),
    ],
)
def test_timeseries_returns_requested_events(query: dict[str, Any], expected: Result, hat: Hat) -> None:
    assert hat.parse_result(run_query(hat.member, "timeseries", hat.resolve(query))) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        pytest.param(90, None, ["1.1.1", "1.1.2", "2.1.1"], id="H-Q/source_t_from"),
        pytest.param(None, 90, ["1.1.2", "1.3.1"], id="H-Q/source_t_to"),
        pytest.param(90, 95, ["1.1.2", "2.1.1"], id="H-Q/source_t_from-source_t_to"),
        pytest.param(101, None, [], id="H-Q/source_t_from-too-late"),
    ],
)
@pytest.mark.parametrize("order_by", ["timestamp", "sourceTimestamp"])
def test_source_time_bounds_exclude_events_without_it(
    order_by: str, first: int | None, last: int | None, expected: list[str], hat: Hat
) -> None:
    bounds = {"sourceTFrom": seconds(first), "sourceTTo": seconds(last)}
    as_objects = {name: time for name, time in bounds.items() if time is not None}
    as_text = {name: f"1970-01-01T00:{time['s'] // 60:02}:{time['s'] % 60:02}Z" for name, time in as_objects.items()}
    answers = [
        run_query(hat.member, "timeseries", ASCENDING | {"orderBy": order_by} | as_text),
        hat.member.request("POST", "/events/timeseries", json=ASCENDING | {"orderBy": order_by} | as_objects).json(),
    ]
    by_source = sorted(expected, key=lambda name: str(hat.events[name]["sourceTimestamp"]))
    ordered = expected if order_by == "timestamp" else by_source
    assert [hat.parse_result(answer) for answer in answers] == [(ordered, False)] * 2


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(
            {"sourceTFrom": 90, "lastEventId": "1.2.1"}, ["2.1.1", "1.1.2", "1.1.1"], id="H-Q14/no-source-time"
        ),
        pytest.param(
            {"sourceTFrom": 90, "lastEventId": "1.3.1"}, ["2.1.1", "1.1.2", "1.1.1"], id="H-Q14/source_t_from"
        ),
        pytest.param({"sourceTTo": 90, "lastEventId": "2.1.1"}, ["1.1.2"], id="H-Q14/source_t_to"),
        pytest.param(
            ASCENDING | BY_SOURCE | {"tFrom": "2.1.1", "lastEventId": "1.1.2"}, ["2.1.1"], id="H-Q14/t_from-by-source"
        ),
        pytest.param(BY_SOURCE | {"sourceTTo": 95, "lastEventId": "1.1.1"}, [], id="H-Q13/source_t_to-by-source"),
    ],
)
def test_timeseries_last_event_may_be_filtered_out(query: dict[str, Any], expected: list[str], hat: Hat) -> None:
    """Only the bounds of the time that orders the result apply to the last event, as in Hat."""
    bounds = {name: seconds(value) for name, value in query.items() if name.startswith("source")}
    answer = hat.member.request("POST", "/events/timeseries", json=hat.resolve(query) | bounds)
    assert hat.parse_result(answer.json()) == (expected, False)


@pytest.mark.parametrize("max_results", [1, 2, 3, 4])
@pytest.mark.parametrize("types", [["*"], ["a/*"], ["a/b", "x"]])
@pytest.mark.parametrize(
    ("order", "order_by"), list(product(["ascending", "descending"], ["timestamp", "sourceTimestamp"]))
)
def test_timeseries_pages_add_up_to_whole_list(
    order: str, order_by: str, types: list[str], max_results: int, hat: Hat
) -> None:
    query = {"order": order, "orderBy": order_by, "types": types}
    expected = run_query(hat.member, "timeseries", query)
    events: list[dict[str, Any]] = []
    more, position = True, dict[str, str]()
    while more:
        page = run_query(hat.member, "timeseries", {**query, **position, "maxResults": max_results})
        events += page["events"]
        more, position = page["moreFollows"], {"lastEventId": id_text(events[-1])}
    assert events == expected["events"]


def test_last_event_id_may_be_an_object(hat: Hat) -> None:
    query = ASCENDING | {"lastEventId": hat.events["1.2.1"]["id"]}
    answer = hat.member.request("POST", "/events/timeseries", json=query)
    assert hat.parse_result(answer.json()) == (["1.3.1", "2.2.1"], False)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        pytest.param(None, ["1.1.2", "1.2.1", "1.3.1", "2.2.1"], id="H-Q15"),
        pytest.param(["*"], ["1.1.2", "1.2.1", "1.3.1", "2.2.1"], id="H-Q15/everything"),
        pytest.param(["a/*"], ["1.1.2", "1.2.1"], id="H-Q16"),
        pytest.param(["a/?"], ["1.1.2", "1.2.1"], id="H-Q16/one"),
        pytest.param(["?"], ["1.3.1"], id="H-Q16/one-subtype"),
        pytest.param([""], ["2.2.1"], id="H-Q16/the-empty-type"),
        pytest.param(["a/b", "x"], ["1.2.1", "1.3.1"], id="H-Q16/several"),
        pytest.param(["y"], [], id="H-Q16/nothing"),
        pytest.param([], [], id="H-Q16/no-pattern"),
    ],
)
def test_latest_returns_last_event_of_each_type(types: list[str] | None, expected: list[str], hat: Hat) -> None:
    answer = run_query(hat.member, "latest", {} if types is None else {"types": types})
    assert hat.parse_result(answer) == (expected, False)


@pytest.mark.parametrize(
    ("query", "position", "expected"),
    [
        pytest.param("latest", 0, ["1.1.2", "1.2.1", "1.3.1"], id="latest of the first"),
        pytest.param("latest", 1, ["2.1.1", "2.2.1"], id="latest of the second"),
        pytest.param("timeseries", 0, ["1.3.1", "1.2.1", "1.1.2", "1.1.1"], id="timeseries of the first"),
        pytest.param("timeseries", 1, ["2.2.1", "2.1.1"], id="timeseries of the second"),
    ],
)
def test_query_can_be_limited_to_one_organization(query: str, position: int, expected: list[str], hat: Hat) -> None:
    name = hat.member.organizations[position]
    by_header = run_query(hat.member, query, {}, **{"X-Organization": name})
    by_token = run_query(hat.member.server.member(name), query, {})
    assert (hat.parse_result(by_header), by_header) == ((expected, False), by_token)


@pytest.mark.parametrize("query", ["latest", "timeseries"])
def test_query_ignores_missing_organization(query: str, hat: Hat) -> None:
    with_another = hat.member.server.member(*hat.member.organizations, "not-created")
    assert run_query(with_another, query, {}) == run_query(hat.member, query, {})


@pytest.mark.parametrize("query", ["latest", "timeseries", "server"])
def test_query_returns_event_id_it_is_valid_for(query: str, hat: Hat) -> None:
    last = "1.3.1" if query == "server" else "2.2.1"
    assert run_query(hat.member, query, {})["eventId"] == hat.events[last]["eventId"]


@pytest.mark.parametrize("query", ["latest", "timeseries"])
def test_query_of_new_organization_is_empty(query: str, member: Member) -> None:
    assert run_query(member, query, {}) == {"events": [], "moreFollows": False, "eventId": 0}


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize(
    ("stored", "max_results", "expected", "more"),
    [
        pytest.param(4, None, 3, True, id="H-Q25"),
        pytest.param(4, 4, 3, True, id="H-Q25/more-run_query-than-allowed"),
        pytest.param(3, None, 3, False, id="H-Q25/just-allowed"),
        pytest.param(0, 2, 0, False, id="H-Q26/0"),
        pytest.param(1, 2, 1, False, id="H-Q26/1"),
        pytest.param(2, 2, 2, False, id="H-Q26/2"),
        pytest.param(3, 2, 2, True, id="H-Q26/3"),
    ],
)
@pytest.mark.parametrize("order_by", ["timestamp", "sourceTimestamp"])
def test_timeseries_respects_requested_and_server_limit(
    order_by: str, stored: int, max_results: int | None, expected: int, more: bool, order: str, limited_server: Server
) -> None:
    member = limited_server.organization()
    events = []
    for at in range(stored):
        answer = member.post({"events": [{"type": ["a"], "sourceTimestamp": seconds(at)}]})
        events += answer.json()["events"]
    query = {"order": order, "orderBy": order_by, **({} if max_results is None else {"maxResults": max_results})}
    in_order = events if order == "ascending" else events[::-1]
    assert run_query(member, "timeseries", query) == {
        "events": in_order[:expected],
        "moreFollows": more,
        "eventId": events[-1]["eventId"] if events else 0,
    }


def test_latest_of_repeated_type_is_the_second(member: Member) -> None:  # H-Q32
    member.publish("a")
    (second,) = member.publish("a")
    _, last = member.publish("b", "b")
    assert run_query(member, "latest", {})["events"] == [second, last]


def test_timeseries_of_several_servers_is_ordered_by_time(server: Server) -> None:
    members = [server.organization(), server.organization()]  # H-Q33
    both = server.member(*(member.organization for member in members))
    events: list[dict[str, Any]] = []
    for turn in range(12):
        events += members[turn % 3 % 2].publish("a", "b")
        events.sort(key=lambda event: (event["timestamp"], *event["id"].values()))
        assert run_query(both, "timeseries", ASCENDING)["events"] == events
        assert run_query(both, "timeseries", {})["events"] == events[::-1]


PAYLOADS = {
    "every kind of JSON": {"type": "json", "data": [{}, None, [], True, False, 1, 2.5, "123"]},
    "JSON null": {"type": "json", "data": None},
    "an object": {"type": "json", "data": {"ä": {'b\n\t"\\': [1e300, -0.0, 9007199254740993]}}},
    "bytes": {"type": "binary", "name": "abc", "data": "MTIz"},
    "empty bytes with an empty name": {"type": "binary", "name": "", "data": ""},
    "none": None,
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=[f"H-C05/{name}" for name in PAYLOADS])
def test_payload_is_returned_unchanged(payload: Any, member: Member) -> None:
    member.post({"events": [{"type": ["a"], "payload": payload}]})
    (event,) = member.get("/events").json()["eventSnapshots"]
    queried = [run_query(member, query, {})["events"][0] for query in ("latest", "timeseries", "server")]
    assert [result["payload"] for result in (event, *queried)] == [payload] * 4
    assert queried == [event] * 3


def test_json_null_differs_from_no_payload(member: Member) -> None:  # H-C05
    sent = [
        {"type": ["a"], "payload": {"type": "json", "data": None}},
        {"type": ["b"], "payload": None},
        {"type": ["c"]},
    ]
    member.post({"events": sent})
    payloads = [event["payload"] for event in run_query(member, "timeseries", ASCENDING)["events"]]
    assert payloads == [{"type": "json", "data": None}, None, None]
