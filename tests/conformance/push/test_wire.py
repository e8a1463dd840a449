"""The wire format of push feeds (P-W)."""

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
    ServerSentEvent,
    job,
    job_feed,
    organization_feed,
    publish,
    publish_texts,
    push_event,
    push_path,
    wait,
)
from tests.serving import Member, Server, run_server

BLOCK = re.compile(r"event: (?P<name>[a-z_]+)\nid: (?P<id>[A-Za-z0-9_-]+)\ndata: (?P<data>\{[^\n]*\})\n\n")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
ALL = ("start 2", "quorum_vote n1 success", "rehab n2", *SUCCESS[2:])
"""One of each event."""


@pytest.fixture(scope="module", params=["streams", "pages"], name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"streams": STREAMS, "pages": PAGES}[request.param]
    with run_server(tmp_path_factory.mktemp(request.param), **settings) as running:
        yield running


@pytest.fixture(scope="module", params=["streams", "pages"])
def summary_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that shows summaries immediately."""
    settings = {"streams": STREAMS, "pages": PAGES}[request.param]
    with run_server(tmp_path_factory.mktemp("summary_server"), **{**settings, "WAIT_COMPLETE_TIME": "0.1"}) as running:
        yield running


def text_of(member: Member, *parts: str, last_id: str = "") -> str:
    """The complete response of a feed that ends."""
    headers = {**SSE, "Last-Event-ID": last_id} if last_id else SSE
    answer = member.get(push_path(member, "job_status_feed", *parts), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


def blocks(text: str) -> list[ServerSentEvent]:
    """The events of a text that contains nothing else."""
    events = [ServerSentEvent(match["name"], match["id"], json.loads(match["data"])) for match in BLOCK.finditer(text)]
    assert BLOCK.sub("", text) == "", text
    return events


def iso_with_space(event_id: int) -> str:
    """The time of an EventId in the format of push jobs."""
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event_id)
    return time.strftime("%Y-%m-%d %H:%M:%S.%fZ")


def test_p_w01_event_is_three_lines_and_a_blank_line(member: Member) -> None:
    ids = publish_texts(member, *ALL)
    assert [(event.name, event.id) for event in blocks(text_of(member, "j1"))] == [
        (text.split()[0], f"job-{event_id}") for text, event_id in zip(ALL, ids, strict=True)
    ]


@pytest.mark.parametrize(
    "text", ["a\nb\r\nc\rd", "\u2028\u2029\x85", '"}\n\ndata: {}', "é 日本 \U0001f600", "\x00\x1b"]
)
def test_p_w01_event_data_is_one_line_for_any_text(text: str, member: Member) -> None:
    publish(member, push_event("start 1", command=text, env={text: text}), push_event("rehab n1", node=text))
    publish_texts(member, "job_complete aborted")
    started, rehab, _ = blocks(text_of(member, "j1"))
    assert started.data["command"] == text
    assert (started.data["env"], rehab.data["node"]) == ({text: text}, text)


def test_p_w02_order_of_members_on_job_feed(member: Member) -> None:
    options = {"job_user": "root", "dir": "/", "env": {"B": "2", "A": "1"}, "file_specified": True, "capture": True}
    publish(member, push_event("start 1", quorum=1, **options), *(push_event(text) for text in ALL[1:]))
    assert [list(event.data) for event in blocks(text_of(member, "j1"))] == [
        ["timestamp", "command", "run_timeout", "quorum", "node_count", "user", *options],
        ["timestamp", "node", "status"],
        ["timestamp", "node"],
        ["timestamp"],
        ["timestamp", "node"],
        ["timestamp", "node", "status"],
        ["timestamp", "status"],
    ]


def test_p_w02_order_of_members_on_organization_feed(member: Member) -> None:
    with organization_feed(member, after=0) as feed:
        publish_texts(member, *ALL)
        started, ended = feed.read(2)
    assert list(started.data) == ["timestamp", "job", "command", "run_timeout", "quorum", "node_count", "user"]
    assert list(ended.data) == ["timestamp", "job", "status"]


def test_p_w02_both_feeds_have_the_same_data(member: Member) -> None:
    with organization_feed(member, after=0) as feed:
        publish_texts(member, *ALL)
        data = [event.data for event in feed.read(2)]
    first, *_, last = blocks(text_of(member, "j1"))
    assert data == [{**event.data, "job": "j1"} for event in (first, last)]


def test_p_w03_timestamps_are_unique_within_a_commit(member: Member) -> None:
    ids = publish_texts(member, *ALL)
    times = [event.data["timestamp"] for event in blocks(text_of(member, "j1"))]
    assert times == sorted(set(times)) == [iso_with_space(event_id) for event_id in ids]
    assert [time for time in times if TIME.fullmatch(time) is None] == []
    age_s = (datetime.now(UTC) - datetime.fromisoformat(times[0])).total_seconds()
    assert -5 < age_s < 300


def test_p_w04_each_feed_has_its_own_ids(member: Member) -> None:
    first, *_, last = publish_texts(member, *ALL)
    with organization_feed(member, "no_such_id") as feed:
        events = feed.read(3)
    assert [event.id for event in events] == ["start_id", f"org-{first}", f"org-{last}"]
    assert [event.id for event in blocks(text_of(member, "j1"))[:: len(ALL) - 1]] == [f"job-{first}", f"job-{last}"]


@pytest.mark.parametrize("last_id", ["", "bleah", "job-1"])
def test_p_w04_summary_is_event_job_1_with_the_resource(last_id: str, summary_server: Server) -> None:
    member = summary_server.organization()
    publish_texts(member, *ALL)
    wait(member, 0.5)
    text = text_of(member, "j1", last_id=last_id)
    (summary,) = blocks(text)  # P-W07: it ends with a blank line
    assert (summary.name, summary.id) == ("summary", "job-1")
    resource = member.get(push_path(member, "jobs", "j1"))
    assert text == f"event: summary\nid: job-1\ndata: {resource.text}\n\n"
    assert next(iter(resource.json())) == "timestamp"


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_w05_feed_without_events_sends_comments(member: Member) -> None:
    publish_texts(member, "start 1")
    for path in (push_path(member, "job_status_feed"), push_path(member, "job_status_feed", "j1")):
        headers = {**member.headers, **SSE}
        with member.server.client.stream("GET", path, headers=headers) as answer:
            chunks = answer.iter_raw()
            received = b""
            while received.count(b":keepalive\n") < 2:
                received += next(chunks)
        assert BLOCK.sub("", received.decode()) == ":keepalive\n:keepalive\n"


def test_p_w06_headers_disable_proxy_buffering(member: Member) -> None:
    publish_texts(member, *SUCCESS)
    answer = member.get(push_path(member, "job_status_feed", "j1"), headers=SSE)
    names = ("content-type", "x-accel-buffering", "cache-control")
    assert [answer.headers[name] for name in names] == ["text/event-stream", "no", "no-store"]


def test_p_w07_last_event_ends_with_a_blank_line(member: Member) -> None:
    publish_texts(member, *SUCCESS)
    assert text_of(member, "j1").endswith('"status":"complete"}\n\n')


@pytest.mark.parametrize("server", ["pages"], indirect=True)
def test_page_of_active_job_ends_with_retry(member: Member) -> None:
    first, second = publish_texts(member, *SUCCESS[:2])
    page = text_of(member, "j1")
    assert page.endswith("}\n\nretry: 1000\n")
    assert [event.id for event in blocks(page.removesuffix("retry: 1000\n"))] == [f"job-{first}", f"job-{second}"]
    assert text_of(member, "j1", last_id=f"job-{second}") == "retry: 1000\n"
    assert re.fullmatch(r"id: org-\d+-at-\d+\n\nretry: 1000\n", text_of(member))


CLEAN = 'event: start\nid: job-7\ndata: {"timestamp":"2014-07-10 05:17:44.995958Z"}\n\n'
EVENT = ServerSentEvent("start", "job-7", {"timestamp": "2014-07-10 05:17:44.995958Z"})


@pytest.mark.parametrize(
    ("text", "comments"),
    [
        pytest.param(CLEAN, [], id="nothing else"),
        pytest.param(f":x\n{CLEAN}", ["x"], id="P-W08 before"),
        pytest.param(CLEAN.replace("id:", ":keepalive\nid:"), ["keepalive"], id="P-W08 within"),
        pytest.param(f"{CLEAN}:\n: a:b\n", ["", "a:b"], id="P-W08 after"),
        pytest.param(CLEAN.replace("id:", "unknown\nid:"), [], id="P-W09 a field without a colon"),
        pytest.param(CLEAN.replace(": ", ":"), [], id="P-W09 no space"),
        pytest.param(CLEAN.replace("data:", "data\ndata:"), [], id="P-W09 data without a colon is an empty line"),
        pytest.param(f"{CLEAN}id: job-8\n\n", [], id="an id without data"),
        pytest.param(f"{CLEAN}event: start\ndata: {{}}\n", [], id="an event without a blank line"),
    ],
)
def test_p_w08_p_w09_parser_ignores_other_lines(text: str, comments: list[str]) -> None:
    parser = Parser()
    assert list(parser.events(text.split("\n")[:-1])) == [EVENT]
    assert parser.comments == comments


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_w08_comments_do_not_affect_events(member: Member) -> None:
    publish_texts(member, "start 1")
    with job_feed(member) as feed:
        events = feed.read(1)
        for text in SUCCESS[1:3]:
            wait(member, 1.0)
            publish_texts(member, text)
            events += feed.read(1)
        publish_texts(member, *SUCCESS[3:])
        events += feed.read_to_end()
    assert len(feed.parser.comments) >= 2
    assert events == blocks(text_of(member, "j1"))


def test_start_fields_are_returned_unchanged(member: Member) -> None:
    fields: Json = {**START, "run_timeout": 0, "node_count": 0, "quorum": 0, "job_user": "", "dir": "", "env": {}}
    publish(member, {"event": "start", "job": "j1", **fields, "file_specified": False, "capture": False})
    publish_texts(member, "job_complete complete")
    started, _ = blocks(text_of(member, "j1"))
    assert started.data == {"timestamp": job(member)["created_at"], **fields, "file_specified": False, "capture": False}
