"""How push feeds look on the wire (P-W)."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.push.push_client import (
    PAGES,
    SSE,
    START,
    STREAMS,
    SUCCESS,
    Json,
    Parser,
    Sent,
    fact,
    happen,
    job,
    job_feed,
    organization_feed,
    pause,
    publish,
    pushy,
)
from tests.serving import Member, Server, serving

BLOCK = re.compile(r"event: (?P<name>[a-z_]+)\nid: (?P<id>[A-Za-z0-9_-]+)\ndata: (?P<data>\{[^\n]*\})\n\n")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
ALL = ("start 2", "quorum_vote n1 success", "rehab n2", *SUCCESS[2:])
"""One of each event."""


@pytest.fixture(scope="module", params=["streams", "pages"], name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    manner = {"streams": STREAMS, "pages": PAGES}[request.param]
    with serving(tmp_path_factory.mktemp(request.param), **manner) as running:
        yield running


@pytest.fixture(scope="module", params=["streams", "pages"])
def hasty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that shows summaries at once."""
    manner = {"streams": STREAMS, "pages": PAGES}[request.param]
    with serving(tmp_path_factory.mktemp("hasty"), **{**manner, "WAIT_COMPLETE_TIME": "0.1"}) as running:
        yield running


def text_of(member: Member, *parts: str, last_id: str = "") -> str:
    """The whole answer of a feed that ends."""
    headers = {**SSE, "Last-Event-ID": last_id} if last_id else SSE
    answer = member.get(pushy(member, "job_status_feed", *parts), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


def blocks(text: str) -> list[Sent]:
    """The events, if there is nothing else."""
    found = [Sent(match["name"], match["id"], json.loads(match["data"])) for match in BLOCK.finditer(text)]
    assert BLOCK.sub("", text) == "", text
    return found


def spaced(event_id: int) -> str:
    """The time that an EventId stands for, as push-jobs writes it."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event_id)
    return moment.strftime("%Y-%m-%d %H:%M:%S.%fZ")


def test_p_w01_every_event_is_three_lines_and_a_blank_one(member: Member) -> None:
    ids = happen(member, *ALL)
    assert [(event.name, event.id) for event in blocks(text_of(member, "j1"))] == [
        (text.split()[0], f"job-{event_id}") for text, event_id in zip(ALL, ids, strict=True)
    ]


@pytest.mark.parametrize(
    "text", ["a\nb\r\nc\rd", "\u2028\u2029\x85", '"}\n\ndata: {}', "é 日本 \U0001f600", "\x00\x1b"]
)
def test_p_w01_whatever_the_text_is_an_event_stays_one_line_of_data(text: str, member: Member) -> None:
    publish(member, fact("start 1", command=text, env={text: text}), fact("rehab n1", node=text))
    happen(member, "job_complete aborted")
    started, sent_to_rehab, _ = blocks(text_of(member, "j1"))
    assert started.data["command"] == text
    assert (started.data["env"], sent_to_rehab.data["node"]) == ({text: text}, text)


def test_p_w02_members_come_in_their_order_on_the_job_feed(member: Member) -> None:
    options = {"job_user": "root", "dir": "/", "env": {"B": "2", "A": "1"}, "file_specified": True, "capture": True}
    publish(member, fact("start 1", quorum=1, **options), *(fact(text) for text in ALL[1:]))
    assert [list(event.data) for event in blocks(text_of(member, "j1"))] == [
        ["timestamp", "command", "run_timeout", "quorum", "node_count", "user", *options],
        ["timestamp", "node", "status"],
        ["timestamp", "node"],
        ["timestamp"],
        ["timestamp", "node"],
        ["timestamp", "node", "status"],
        ["timestamp", "status"],
    ]


def test_p_w02_the_job_comes_second_on_the_organization_feed(member: Member) -> None:
    with organization_feed(member, after=0) as feed:
        happen(member, *ALL)
        started, ended = feed.take(2)
    assert list(started.data) == ["timestamp", "job", "command", "run_timeout", "quorum", "node_count", "user"]
    assert list(ended.data) == ["timestamp", "job", "status"]


def test_p_w02_both_feeds_tell_the_same_of_a_job(member: Member) -> None:
    with organization_feed(member, after=0) as feed:
        happen(member, *ALL)
        told = [event.data for event in feed.take(2)]
    first, *_, last = blocks(text_of(member, "j1"))
    assert told == [{**event.data, "job": "j1"} for event in (first, last)]


def test_p_w03_timestamps_are_unique_and_rise_even_within_a_commit(member: Member) -> None:
    ids = happen(member, *ALL)
    times = [event.data["timestamp"] for event in blocks(text_of(member, "j1"))]
    assert times == sorted(set(times)) == [spaced(event_id) for event_id in ids]
    assert [time for time in times if TIME.fullmatch(time) is None] == []
    age_s = (datetime.now(UTC) - datetime.fromisoformat(times[0])).total_seconds()
    assert -5 < age_s < 300


def test_p_w04_each_feed_has_ids_of_its_own(member: Member) -> None:
    first, *_, last = happen(member, *ALL)
    with organization_feed(member, "no_such_id") as feed:
        events = feed.take(3)
    assert [event.id for event in events] == ["start_id", f"org-{first}", f"org-{last}"]
    assert [event.id for event in blocks(text_of(member, "j1"))[:: len(ALL) - 1]] == [f"job-{first}", f"job-{last}"]


@pytest.mark.parametrize("last_id", ["", "bleah", "job-1"])
def test_p_w04_a_summary_is_one_event_called_job_1_and_tells_what_the_resource_tells(
    last_id: str, hasty: Server
) -> None:
    member = hasty.organization()
    happen(member, *ALL)
    pause(member, 0.5)
    text = text_of(member, "j1", last_id=last_id)
    (summary,) = blocks(text)  # P-W07: and it ends with a blank line
    assert (summary.name, summary.id) == ("summary", "job-1")
    resource = member.get(pushy(member, "jobs", "j1"))
    assert text == f"event: summary\nid: job-1\ndata: {resource.text}\n\n"
    assert next(iter(resource.json())) == "timestamp"


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_w05_a_feed_without_events_gets_comments(member: Member) -> None:
    happen(member, "start 1")
    for path in (pushy(member, "job_status_feed"), pushy(member, "job_status_feed", "j1")):
        headers = {**member.headers, **SSE}
        with member.server.client.stream("GET", path, headers=headers) as answer:
            pieces = answer.iter_raw()
            found = b""
            while found.count(b":keepalive\n") < 2:
                found += next(pieces)
        assert BLOCK.sub("", found.decode()) == ":keepalive\n:keepalive\n"


def test_p_w06_proxies_are_asked_not_to_wait(member: Member) -> None:
    happen(member, *SUCCESS)
    answer = member.get(pushy(member, "job_status_feed", "j1"), headers=SSE)
    names = ("content-type", "x-accel-buffering", "cache-control")
    assert [answer.headers[name] for name in names] == ["text/event-stream", "no", "no-store"]


def test_p_w07_the_last_event_of_a_job_ends_with_a_blank_line(member: Member) -> None:
    happen(member, *SUCCESS)
    assert text_of(member, "j1").endswith('"status":"complete"}\n\n')


@pytest.mark.parametrize("server", ["pages"], indirect=True)
def test_a_page_of_a_job_that_goes_on_says_when_to_come_back(member: Member) -> None:
    first, second = happen(member, *SUCCESS[:2])
    page = text_of(member, "j1")
    assert page.endswith("}\n\nretry: 1000\n")
    assert [event.id for event in blocks(page.removesuffix("retry: 1000\n"))] == [f"job-{first}", f"job-{second}"]
    assert text_of(member, "j1", last_id=f"job-{second}") == "retry: 1000\n"
    assert re.fullmatch(r"id: org-\d+-at-\d+\n\nretry: 1000\n", text_of(member))


CLEAN = 'event: start\nid: job-7\ndata: {"timestamp":"2014-07-10 05:17:44.995958Z"}\n\n'
EVENT = Sent("start", "job-7", {"timestamp": "2014-07-10 05:17:44.995958Z"})


@pytest.mark.parametrize(
    ("text", "comments"),
    [
        pytest.param(CLEAN, [], id="nothing else"),
        pytest.param(f":x\n{CLEAN}", ["x"], id="P-W08 before"),
        pytest.param(CLEAN.replace("id:", ":keepalive\nid:"), ["keepalive"], id="P-W08 amid"),
        pytest.param(f"{CLEAN}:\n: a:b\n", ["", "a:b"], id="P-W08 after"),
        pytest.param(CLEAN.replace("id:", "unknown\nid:"), [], id="P-W09 a field without a colon"),
        pytest.param(CLEAN.replace(": ", ":"), [], id="P-W09 no space"),
        pytest.param(CLEAN.replace("data:", "data\ndata:"), [], id="P-W09 data without a colon is an empty line"),
        pytest.param(f"{CLEAN}id: job-8\n\n", [], id="an id alone is no event"),
        pytest.param(f"{CLEAN}event: start\ndata: {{}}\n", [], id="without a blank line there is no event"),
    ],
)
def test_p_w08_p_w09_a_reader_finds_the_event_whatever_stands_beside_it(text: str, comments: list[str]) -> None:
    parser = Parser()
    assert list(parser.events(text.split("\n")[:-1])) == [EVENT]
    assert parser.comments == comments


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_w08_comments_change_nothing_of_the_events(member: Member) -> None:
    happen(member, "start 1")
    with job_feed(member) as feed:
        events = feed.take(1)
        for text in SUCCESS[1:3]:
            pause(member, 1.0)
            happen(member, text)
            events += feed.take(1)
        happen(member, *SUCCESS[3:])
        events += feed.rest()
    assert len(feed.parser.comments) >= 2
    assert events == blocks(text_of(member, "j1"))


def test_every_member_of_a_start_is_told_as_it_was_given(member: Member) -> None:
    given: Json = {**START, "run_timeout": 0, "node_count": 0, "quorum": 0, "job_user": "", "dir": "", "env": {}}
    publish(member, {"event": "start", "job": "j1", **given, "file_specified": False, "capture": False})
    happen(member, "job_complete complete")
    started, _ = blocks(text_of(member, "j1"))
    assert started.data == {"timestamp": job(member)["created_at"], **given, "file_specified": False, "capture": False}
