"""Feeds of push jobs: live, resumed, and after the end of the job (P-R)."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import pytest

from tests.conformance.push.push_client import (
    PAGES,
    STREAMS,
    SUCCESS,
    describe,
    job,
    job_feed,
    organization_feed,
    publish_texts,
    wait,
)
from tests.serving import TIMEOUT_S, Member, Server, run_server

MODES = {"streams": STREAMS, "pages": PAGES}
WAIT_COMPLETE_S = 0.1


@pytest.fixture(scope="module", params=MODES, name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp(request.param), **MODES[request.param]) as running:
        yield running


@pytest.fixture(scope="module", params=MODES)
def summary_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that shows summaries soon after the end of a job."""
    settings = {**MODES[request.param], "WAIT_COMPLETE_TIME": str(WAIT_COMPLETE_S)}
    with run_server(tmp_path_factory.mktemp("summary_server"), **settings) as running:
        yield running


def is_streaming(member: Member) -> bool:
    return member.get("/events", headers={"Accept": "application/x-ndjson"}).headers.get("content-length") is None


def test_p_r01_feed_of_live_job_shows_it_to_the_end(member: Member) -> None:
    ids = publish_texts(member, *SUCCESS[:4])
    with job_feed(member) as feed:
        events = feed.read(4)
        for text in SUCCESS[4:]:
            ids += publish_texts(member, text)
            events += feed.read(1)
        assert feed.read_to_end() == []
    assert [(event.description, event.id) for event in events] == [
        (text, f"job-{event_id}") for text, event_id in zip(SUCCESS, ids, strict=True)
    ]
    assert feed.connection_count == 1 or not is_streaming(member)


def test_p_r01_concurrent_feeds_all_show_everything(member: Member) -> None:
    publish_texts(member, SUCCESS[0])
    with ExitStack() as stack:
        feeds = [stack.enter_context(job_feed(member)) for _ in range(8)]
        first = [feed.read(1) for feed in feeds]
        for text in SUCCESS[1:]:
            publish_texts(member, text)
        rest = [feed.read_until("job_complete") for feed in feeds]
    assert [describe(chain(*parts)) for parts in zip(first, rest, strict=True)] == [list(SUCCESS)] * len(feeds)


@pytest.mark.parametrize("last", range(len(SUCCESS)))
def test_p_r01_feed_with_last_id_shows_later_events(last: int, member: Member) -> None:
    ids = publish_texts(member, *SUCCESS[:3]) + publish_texts(member, *SUCCESS[3:])
    assert describe(job_feed(member, last_id=f"job-{ids[last]}").read_to_end()) == list(SUCCESS[last + 1 :])


def test_p_r01_events_after_end_are_not_on_feed(member: Member) -> None:
    ids = publish_texts(member, *SUCCESS, "rehab n1")
    publish_texts(member, "run_complete n1 failure", "job_complete aborted")
    for last, event_id in enumerate(ids[: len(SUCCESS)]):
        assert describe(job_feed(member, last_id=f"job-{event_id}").read_to_end()) == list(SUCCESS[last + 1 :])


UNKNOWN = [
    "bleah",
    "start_id",
    "job-1",
    "job-",
    "job-0",
    "job--1",
    "job-9007199254740991",
    "job-99999999999999999",
    "7",
]


@pytest.mark.parametrize("last_id", [*UNKNOWN, "org-{0}", "job-{0}x", "xjob-{0}", "{0}", "job-{0}-at-{0}x"])
def test_p_r04_unknown_id_gets_the_whole_job(last_id: str, member: Member) -> None:
    first, *_ = publish_texts(member, *SUCCESS)
    assert describe(job_feed(member, last_id=last_id.format(first)).read_to_end()) == list(SUCCESS)


def test_p_r04_id_of_another_feed_is_unknown(member: Member) -> None:
    own_ids = publish_texts(member, *SUCCESS[:3])
    other_ids = publish_texts(member, *SUCCESS, job="other")
    own_ids += publish_texts(member, *SUCCESS[3:])
    for last_id in (f"job-{other_ids[2]}", f"job-{other_ids[-1]}", f"org-{own_ids[0]}", f"job-{own_ids[-1] + 1}"):
        assert describe(job_feed(member, last_id=last_id).read_to_end()) == list(SUCCESS)


@pytest.mark.parametrize("last_id", ["", "bleah", "job-1", "job-{0}", "job-{5}"])
def test_p_r05_p_r06_feed_of_ended_job_is_summary(last_id: str, summary_server: Server) -> None:
    member = summary_server.organization()
    ids = publish_texts(member, *(text.replace("n1", "DONKEY") for text in SUCCESS))
    wait(member, WAIT_COMPLETE_S + 0.4)
    (summary,) = job_feed(member, last_id=last_id.format(*ids)).read_to_end()
    assert (summary.name, summary.id, summary.data) == ("summary", "job-1", job(member))
    state = summary.data
    expected = {"command": "chef-client", "status": "complete", "run_timeout": 3600, "id": "j1"}
    assert expected.items() <= state.items()
    assert state["nodes"] == {"succeeded": ["DONKEY"]}  # and no key "failed"
    assert state["timestamp"] == state["updated_at"] > state["created_at"]


def test_p_r05_events_after_end_do_not_reopen_job(summary_server: Server) -> None:
    member = summary_server.organization()
    publish_texts(member, *SUCCESS)
    wait(member, WAIT_COMPLETE_S + 0.4)
    before = job(member)
    publish_texts(member, "run_complete n1 failure", "rehab n1", "job_complete aborted")
    (summary,) = job_feed(member).read_to_end()
    assert {**summary.data, "out_of_order": []} == before
    assert [report["reason"] for report in summary.data["out_of_order"]] == ["the job is over: complete"] * 3


def test_p_r05_open_feed_shows_end_instead_of_summary(summary_server: Server) -> None:
    member = summary_server.organization()
    publish_texts(member, SUCCESS[0])
    with job_feed(member) as feed:
        assert describe(feed.read(1)) == [SUCCESS[0]]
        if is_streaming(member):
            publish_texts(member, *SUCCESS[1:])
            assert describe(feed.read_to_end()) == list(SUCCESS[1:])
        else:
            wait(member, WAIT_COMPLETE_S + 0.4)  # a job that has not ended shows its events, however old they are
            publish_texts(member, *SUCCESS[1:3])
            assert describe(feed.read(2)) == list(SUCCESS[1:3])


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_r08_closed_connections_are_released(member: Member) -> None:
    publish_texts(member, SUCCESS[0])
    before = open_sockets(member)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(job_feed(member))
            stack.enter_context(organization_feed(member))
        assert open_sockets(member) >= before + 9  # one may be reused
    with job_feed(member) as feed:
        publish_texts(member, *SUCCESS[1:])
        assert describe(feed.read_to_end()) == list(SUCCESS)
    deadline = time.monotonic() + TIMEOUT_S
    while open_sockets(member) > before + 2 and time.monotonic() < deadline:
        wait(member, 0.2)
    assert open_sockets(member) <= before + 2


def open_sockets(member: Member) -> int:
    """Number of open sockets of the server process."""
    links = Path(f"/proc/{member.server.process.pid}/fd").iterdir()
    return sum(link.is_socket() for link in links)


def test_p_r17_feed_of_slow_job_is_complete_with_comments(member: Member) -> None:
    publish_texts(member, SUCCESS[0])
    with job_feed(member) as feed:
        events = feed.read(1)
        for text in SUCCESS[1:3]:
            wait(member, 1.0)
            publish_texts(member, text)
            events += feed.read(1)
        publish_texts(member, *SUCCESS[3:])
        events += feed.read(3)
    assert describe(events) == list(SUCCESS)
    assert (set(feed.parser.comments) == {"keepalive"}) is is_streaming(member)
