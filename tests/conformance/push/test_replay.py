"""Feeds of push jobs over time: listening, coming back, coming late (P-R)."""

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
    happen,
    job,
    job_feed,
    organization_feed,
    pause,
    told,
)
from tests.serving import PATIENCE_S, Member, Server, serving

MANNERS = {"streams": STREAMS, "pages": PAGES}
ENDED_S = 0.1


@pytest.fixture(scope="module", params=MANNERS, name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp(request.param), **MANNERS[request.param]) as running:
        yield running


@pytest.fixture(scope="module", params=MANNERS)
def hasty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server where jobs are soon long over."""
    manner = {**MANNERS[request.param], "WAIT_COMPLETE_TIME": str(ENDED_S)}
    with serving(tmp_path_factory.mktemp("hasty"), **manner) as running:
        yield running


def is_stream(member: Member) -> bool:
    """Whether the member's server streams."""
    return member.get("/events", headers={"Accept": "application/x-ndjson"}).headers.get("content-length") is None


def test_p_r01_whoever_listens_to_a_live_job_hears_it_to_the_end(member: Member) -> None:
    ids = happen(member, *SUCCESS[:4])
    with job_feed(member) as feed:
        events = feed.take(4)
        for text in SUCCESS[4:]:
            ids += happen(member, text)
            events += feed.take(1)
        assert feed.rest() == []
    assert [(event.told, event.id) for event in events] == [
        (text, f"job-{event_id}") for text, event_id in zip(SUCCESS, ids, strict=True)
    ]
    assert feed.answers == 1 or not is_stream(member)


def test_p_r01_many_listen_at_the_same_time_and_all_hear_everything(member: Member) -> None:
    happen(member, SUCCESS[0])
    with ExitStack() as listening:
        feeds = [listening.enter_context(job_feed(member)) for _ in range(8)]
        first = [feed.take(1) for feed in feeds]
        for text in SUCCESS[1:]:
            happen(member, text)
        rest = [feed.until("job_complete") for feed in feeds]
    assert [told(chain(*heard)) for heard in zip(first, rest, strict=True)] == [list(SUCCESS)] * len(feeds)


@pytest.mark.parametrize("last", range(len(SUCCESS)))
def test_p_r01_whoever_comes_back_hears_what_came_since(last: int, member: Member) -> None:
    ids = happen(member, *SUCCESS[:3]) + happen(member, *SUCCESS[3:])
    assert told(job_feed(member, last_id=f"job-{ids[last]}").rest()) == list(SUCCESS[last + 1 :])


def test_p_r01_what_comes_after_the_end_is_on_the_feed_for_nobody(member: Member) -> None:
    ids = happen(member, *SUCCESS, "rehab n1")
    happen(member, "run_complete n1 failure", "job_complete aborted")
    for last, event_id in enumerate(ids[: len(SUCCESS)]):
        assert told(job_feed(member, last_id=f"job-{event_id}").rest()) == list(SUCCESS[last + 1 :])


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
def test_p_r04_an_unknown_id_brings_the_whole_job_without_more_ado(last_id: str, member: Member) -> None:
    first, *_ = happen(member, *SUCCESS)
    assert told(job_feed(member, last_id=last_id.format(first)).rest()) == list(SUCCESS)


def test_p_r04_an_id_of_another_job_or_of_the_organization_is_unknown_to_a_job(member: Member) -> None:
    own = happen(member, *SUCCESS[:3])
    others = happen(member, *SUCCESS, job="other")
    own += happen(member, *SUCCESS[3:])
    for last_id in (f"job-{others[2]}", f"job-{others[-1]}", f"org-{own[0]}", f"job-{own[-1] + 1}"):
        assert told(job_feed(member, last_id=last_id).rest()) == list(SUCCESS)


@pytest.mark.parametrize("last_id", ["", "bleah", "job-1", "job-{0}", "job-{5}"])
def test_p_r05_p_r06_of_a_job_long_over_there_is_a_summary(last_id: str, hasty: Server) -> None:
    member = hasty.organization()
    ids = happen(member, *(text.replace("n1", "DONKEY") for text in SUCCESS))
    pause(member, ENDED_S + 0.4)
    (summary,) = job_feed(member, last_id=last_id.format(*ids)).rest()
    assert (summary.name, summary.id, summary.data) == ("summary", "job-1", job(member))
    found = summary.data
    expected = {"command": "chef-client", "status": "complete", "run_timeout": 3600, "id": "j1"}
    assert expected.items() <= found.items()
    assert found["nodes"] == {"succeeded": ["DONKEY"]}  # and no key "failed"
    assert found["timestamp"] == found["updated_at"] > found["created_at"]


def test_p_r05_what_comes_after_its_end_does_not_bring_a_job_back(hasty: Server) -> None:
    member = hasty.organization()
    happen(member, *SUCCESS)
    pause(member, ENDED_S + 0.4)
    before = job(member)
    happen(member, "run_complete n1 failure", "rehab n1", "job_complete aborted")
    (summary,) = job_feed(member).rest()
    assert {**summary.data, "out_of_order": []} == before
    assert [report["reason"] for report in summary.data["out_of_order"]] == ["the job is over: complete"] * 3


def test_p_r05_a_listener_who_is_there_when_the_job_ends_hears_the_end_not_the_summary(hasty: Server) -> None:
    member = hasty.organization()
    happen(member, SUCCESS[0])
    with job_feed(member) as feed:
        assert told(feed.take(1)) == [SUCCESS[0]]
        if is_stream(member):
            happen(member, *SUCCESS[1:])
            assert told(feed.rest()) == list(SUCCESS[1:])
        else:
            pause(member, ENDED_S + 0.4)  # a job that is not over shows its events, however old they are
            happen(member, *SUCCESS[1:3])
            assert told(feed.take(2)) == list(SUCCESS[1:3])


@pytest.mark.parametrize("server", ["streams"], indirect=True)
def test_p_r08_whoever_hangs_up_is_dropped_and_the_job_goes_on(member: Member) -> None:
    happen(member, SUCCESS[0])
    before = sockets(member)
    with ExitStack() as listening:
        for _ in range(5):
            listening.enter_context(job_feed(member))
            listening.enter_context(organization_feed(member))
        assert sockets(member) >= before + 9  # one may be used again
    with job_feed(member) as feed:
        happen(member, *SUCCESS[1:])
        assert told(feed.rest()) == list(SUCCESS)
    deadline = time.monotonic() + PATIENCE_S
    while sockets(member) > before + 2 and time.monotonic() < deadline:
        pause(member, 0.2)
    assert sockets(member) <= before + 2


def sockets(member: Member) -> int:
    """How many sockets the server has open."""
    links = Path(f"/proc/{member.server.process.pid}/fd").iterdir()
    return sum(link.is_socket() for link in links)


def test_p_r17_a_slow_job_is_heard_whole_whatever_comments_come_between(member: Member) -> None:
    happen(member, SUCCESS[0])
    with job_feed(member) as feed:
        events = feed.take(1)
        for text in SUCCESS[1:3]:
            pause(member, 1.0)
            happen(member, text)
            events += feed.take(1)
        happen(member, *SUCCESS[3:])
        events += feed.take(3)
    assert told(events) == list(SUCCESS)
    assert (set(feed.parser.comments) == {"keepalive"}) is is_stream(member)
