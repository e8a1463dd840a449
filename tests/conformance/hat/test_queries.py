"""Hat's queries latest and timeseries (H-Q01 to H-Q16, H-Q25 to H-Q33) and its payloads (H-C05)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from tests.serving import Member, Server, serving

Told = tuple[list[str], bool]
"""Hat's names of events, and whether more follow."""

COMMITS: list[tuple[int, dict[str, tuple[list[str], int | None]]]] = [
    (0, {"1.1.1": (["a", "b"], 100), "1.1.2": (["a", "c"], 90)}),
    (1, {"2.1.1": (["a", "b"], 95)}),
    (0, {"1.2.1": (["a", "b"], None)}),
    (0, {"1.3.1": (["x"], 80)}),
    (1, {"2.2.1": ([], None)}),
]
"""Hat's fixture F: the organization, then the name of each event, its type and its source's seconds since 1970."""

FORWARDS = ["1.1.1", "1.1.2", "2.1.1", "1.2.1", "1.3.1", "2.2.1"]
BACKWARDS = FORWARDS[::-1]
ASCENDING = {"order": "ascending"}
BY_SOURCE = {"orderBy": "sourceTimestamp"}


@dataclass
class Hat:
    """The fixture: a member of both organizations, and each event by Hat's name."""

    member: Member
    events: dict[str, dict[str, Any]]

    def parameters(self, given: dict[str, Any]) -> dict[str, Any]:
        """`given` with names of events in the place of their ids and times."""
        return {name: self._meant(name, value) for name, value in given.items()}

    def told(self, answer: dict[str, Any]) -> Told:
        """What an answer says, after a check that each event is as it was written."""
        names = {str(event["id"]): name for name, event in self.events.items()}
        found = [names[str(event["id"])] for event in answer["events"]]
        assert answer["events"] == [self.events[name] for name in found]
        return found, answer["moreFollows"]

    def _meant(self, name: str, value: Any) -> Any:
        if name in ("tFrom", "tTo"):
            return self.events[value]["timestamp"]
        if name == "lastEventId" and value in self.events:
            return written(self.events[value])
        return value.format(server=self.events["1.1.1"]["id"]["server"]) if name == "lastEventId" else value


@pytest.fixture(scope="module")
def hat(server: Server) -> Hat:
    members = [server.organization(), server.organization()]
    events: dict[str, dict[str, Any]] = {}
    for owner, commit in COMMITS:
        sent = [{"type": type_, "sourceTimestamp": seconds(at)} for type_, at in commit.values()]
        answer = members[owner].post({"events": sent})
        events |= zip(commit, answer.json()["events"], strict=True)
        pause(members[owner])
    return Hat(server.member(*(member.organization for member in members)), events)


@pytest.fixture(scope="module")
def capped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose answers have at most three events."""
    with serving(tmp_path_factory.mktemp("capped"), MOST_RESULTS="3") as running:
        yield running


def pause(member: Member) -> None:
    """Let the clock go on, so that the next commit has another time."""
    member.get("/events", params={"types": "never", "timeout": "0.002s"})


def seconds(since_1970: int | None) -> Any:
    """A time as Hat writes it."""
    return None if since_1970 is None else {"s": since_1970, "us": 0}


def written(event: dict[str, Any]) -> str:
    """The event's id as text."""
    return f"{event['id']['server']}.{event['id']['session']}.{event['id']['instance']}"


def asked(member: Member, query: str, parameters: dict[str, Any], **headers: str) -> dict[str, Any]:
    """The answer to a query, after a check that GET and POST say the same."""
    post = member.ask("POST", f"/events/{query}", json=parameters, headers=headers)
    assert post.status_code == 200, post.text
    if parameters.get("types") != []:  # a query string cannot write an empty list
        get = member.get(f"/events/{query}", params=parameters, headers=headers)
        assert (get.status_code, get.json()) == (200, post.json())
    found: dict[str, Any] = post.json()
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
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
            ASCENDING | {"maxResults": 2, "lastEventId": "1.1.2"}, (["2.1.1", "1.2.1"], True), id="H-Q/last-and-most"
        ),
    ],
)
def test_a_timeseries_has_the_events_that_were_asked_for(given: dict[str, Any], expected: Told, hat: Hat) -> None:
    assert hat.told(asked(hat.member, "timeseries", hat.parameters(given))) == expected


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
def test_bounds_of_the_sources_time_leave_out_events_without_one(
    order_by: str, first: int | None, last: int | None, expected: list[str], hat: Hat
) -> None:
    bounds = {"sourceTFrom": seconds(first), "sourceTTo": seconds(last)}
    as_objects = {name: time for name, time in bounds.items() if time is not None}
    as_text = {name: f"1970-01-01T00:{time['s'] // 60:02}:{time['s'] % 60:02}Z" for name, time in as_objects.items()}
    answers = [
        asked(hat.member, "timeseries", ASCENDING | {"orderBy": order_by} | as_text),
        hat.member.ask("POST", "/events/timeseries", json=ASCENDING | {"orderBy": order_by} | as_objects).json(),
    ]
    by_source = sorted(expected, key=lambda name: str(hat.events[name]["sourceTimestamp"]))
    ordered = expected if order_by == "timestamp" else by_source
    assert [hat.told(answer) for answer in answers] == [(ordered, False)] * 2


@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("types", [["*"], ["a/*"], ["a/b", "x"]])
@pytest.mark.parametrize(
    ("order", "order_by"), list(product(["ascending", "descending"], ["timestamp", "sourceTimestamp"]))
)
def test_page_after_page_gives_the_whole_list(order: str, order_by: str, types: list[str], most: int, hat: Hat) -> None:
    query = {"order": order, "orderBy": order_by, "types": types}
    whole = asked(hat.member, "timeseries", query)
    found: list[dict[str, Any]] = []
    more, place = True, dict[str, str]()
    while more:
        page = asked(hat.member, "timeseries", {**query, **place, "maxResults": most})
        found += page["events"]
        more, place = page["moreFollows"], {"lastEventId": written(found[-1])}
    assert found == whole["events"]


def test_the_last_event_seen_may_be_an_object(hat: Hat) -> None:
    query = ASCENDING | {"lastEventId": hat.events["1.2.1"]["id"]}
    answer = hat.member.ask("POST", "/events/timeseries", json=query)
    assert hat.told(answer.json()) == (["1.3.1", "2.2.1"], False)


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
def test_latest_has_the_last_event_of_each_type_in_all_organizations(
    types: list[str] | None, expected: list[str], hat: Hat
) -> None:
    answer = asked(hat.member, "latest", {} if types is None else {"types": types})
    assert hat.told(answer) == (expected, False)


@pytest.mark.parametrize(
    ("query", "place", "expected"),
    [
        pytest.param("latest", 0, ["1.1.2", "1.2.1", "1.3.1"], id="latest of the first"),
        pytest.param("latest", 1, ["2.1.1", "2.2.1"], id="latest of the second"),
        pytest.param("timeseries", 0, ["1.3.1", "1.2.1", "1.1.2", "1.1.1"], id="timeseries of the first"),
        pytest.param("timeseries", 1, ["2.2.1", "2.1.1"], id="timeseries of the second"),
    ],
)
def test_a_query_may_be_narrowed_to_one_organization(query: str, place: int, expected: list[str], hat: Hat) -> None:
    name = hat.member.organizations[place]
    by_header = asked(hat.member, query, {}, **{"X-Organization": name})
    by_token = asked(hat.member.server.member(name), query, {})
    assert (hat.told(by_header), by_header) == ((expected, False), by_token)


@pytest.mark.parametrize("query", ["latest", "timeseries"])
def test_an_organization_that_does_not_exist_yet_adds_nothing(query: str, hat: Hat) -> None:
    with_another = hat.member.server.member(*hat.member.organizations, "nobody-created-this")
    assert asked(with_another, query, {}) == asked(hat.member, query, {})


@pytest.mark.parametrize("query", ["latest", "timeseries", "server"])
def test_a_query_tells_the_event_id_up_to_which_it_is_right(query: str, hat: Hat) -> None:
    last = "1.3.1" if query == "server" else "2.2.1"
    assert asked(hat.member, query, {})["eventId"] == hat.events[last]["eventId"]


@pytest.mark.parametrize("query", ["latest", "timeseries"])
def test_the_log_of_a_new_organization_has_nothing(query: str, member: Member) -> None:
    assert asked(member, query, {}) == {"events": [], "moreFollows": False, "eventId": 0}


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize(
    ("stored", "most", "expected", "more"),
    [
        pytest.param(4, None, 3, True, id="H-Q25"),
        pytest.param(4, 4, 3, True, id="H-Q25/more-asked-than-allowed"),
        pytest.param(3, None, 3, False, id="H-Q25/just-allowed"),
        pytest.param(0, 2, 0, False, id="H-Q26/0"),
        pytest.param(1, 2, 1, False, id="H-Q26/1"),
        pytest.param(2, 2, 2, False, id="H-Q26/2"),
        pytest.param(3, 2, 2, True, id="H-Q26/3"),
    ],
)
@pytest.mark.parametrize("order_by", ["timestamp", "sourceTimestamp"])
def test_an_answer_has_as_many_events_as_asked_for_and_allowed(
    order_by: str, stored: int, most: int | None, expected: int, more: bool, order: str, capped: Server
) -> None:
    member = capped.organization()
    events = []
    for at in range(stored):
        answer = member.post({"events": [{"type": ["a"], "sourceTimestamp": seconds(at)}]})
        events += answer.json()["events"]
    query = {"order": order, "orderBy": order_by, **({} if most is None else {"maxResults": most})}
    in_order = events if order == "ascending" else events[::-1]
    assert asked(member, "timeseries", query) == {
        "events": in_order[:expected],
        "moreFollows": more,
        "eventId": events[-1]["eventId"] if events else 0,
    }


def test_of_a_type_that_came_twice_only_the_second_is_the_latest(member: Member) -> None:  # H-Q32
    member.publish("a")
    (second,) = member.publish("a")
    _, last = member.publish("b", "b")
    assert asked(member, "latest", {})["events"] == [second, last]


def test_events_of_several_servers_are_in_the_order_of_time_as_soon_as_they_are_written(server: Server) -> None:
    members = [server.organization(), server.organization()]  # H-Q33
    both = server.member(*(member.organization for member in members))
    events: list[dict[str, Any]] = []
    for turn in range(12):
        events += members[turn % 3 % 2].publish("a", "b")
        events.sort(key=lambda event: (event["timestamp"], *event["id"].values()))
        found = asked(both, "timeseries", ASCENDING)["events"]
        assert found == events
        assert asked(both, "timeseries", {})["events"] == events[::-1]


PAYLOADS = {
    "every kind of JSON": {"type": "json", "data": [{}, None, [], True, False, 1, 2.5, "123"]},
    "JSON null": {"type": "json", "data": None},
    "an object": {"type": "json", "data": {"ä": {'b\n\t"\\': [1e300, -0.0, 9007199254740993]}}},
    "bytes": {"type": "binary", "name": "abc", "data": "MTIz"},
    "no bytes without a name": {"type": "binary", "name": "", "data": ""},
    "none": None,
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=[f"H-C05/{name}" for name in PAYLOADS])
def test_a_payload_is_read_as_it_was_written(payload: Any, member: Member) -> None:
    member.post({"events": [{"type": ["a"], "payload": payload}]})
    (fed,) = member.get("/events").json()["eventSnapshots"]
    queried = [asked(member, query, {})["events"][0] for query in ("latest", "timeseries", "server")]
    assert [event["payload"] for event in (fed, *queried)] == [payload] * 4
    assert queried == [fed] * 3


def test_json_null_is_not_the_lack_of_a_payload(member: Member) -> None:  # H-C05
    sent = [
        {"type": ["a"], "payload": {"type": "json", "data": None}},
        {"type": ["b"], "payload": None},
        {"type": ["c"]},
    ]
    member.post({"events": sent})
    found = [event["payload"] for event in asked(member, "timeseries", ASCENDING)["events"]]
    assert found == [{"type": "json", "data": None}, None, None]
