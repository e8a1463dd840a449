"""Feeds of organizations: push jobs, expired history, and reconnects (P-R)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.push.push_client import (
    PAGES,
    STREAMS,
    SUCCESS,
    ServerSentEvent,
    describe,
    job_feed,
    organization_feed,
    publish,
    publish_texts,
    push_event,
    wait,
)
from tests.serving import Member, Server, run_server

MODES = {"streams": STREAMS, "pages": PAGES}
EXPIRATION_S = 2.0


@pytest.fixture(scope="module", params=MODES, name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp(request.param), **MODES[request.param]) as running:
        yield running


@pytest.fixture(scope="module", params=MODES)
def expiring_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on which history expires quickly."""
    settings = {**MODES[request.param], "ORG_FEED_EXPIRATION": str(EXPIRATION_S)}
    with run_server(tmp_path_factory.mktemp("expiring_server"), **settings) as running:
        yield running


@pytest.fixture(scope="module", params=MODES)
def retention_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose retention keeps the last three events of each organization."""
    settings = {**MODES[request.param], "RETENTION_EVENTS": "3"}
    with run_server(tmp_path_factory.mktemp("retention_server"), **settings) as running:
        yield running


def starts_and_ends(*jobs: str) -> list[str]:
    """The events of successive jobs on an organization's feed, in short form."""
    return [text for name in jobs for text in (f"start {name} 1", f"job_complete {name} complete")]


def is_start_of_history(event: ServerSentEvent, expiration_s: float) -> bool:
    """Whether the event states that history starts `expiration_s` ago."""
    age = datetime.now(UTC) - datetime.fromisoformat(event.data["timestamp"])
    is_expected_age = abs(age - timedelta(seconds=expiration_s)) < timedelta(seconds=30)
    return (event.name, event.id, list(event.data)) == (
        "start_of_history",
        "start_id",
        ["timestamp"],
    ) and is_expected_age


def test_p_r10_feed_opened_before_job_shows_start_and_end(member: Member) -> None:
    publish_texts(member, *SUCCESS, job="earlier")
    with organization_feed(member) as feed:
        first, *_ = publish_texts(member, *SUCCESS[:3])
        publish_texts(member, *SUCCESS[3:5])
        (last,) = publish_texts(member, SUCCESS[-1])
        events = feed.read(2)
    assert describe(events) == starts_and_ends("j1")
    assert [event.id for event in events] == [f"org-{first}", f"org-{last}"]


def test_p_r10_feed_with_after_misses_nothing(member: Member) -> None:
    *_, seen = publish_texts(member, *SUCCESS, job="earlier")
    publish_texts(member, *SUCCESS, job="later")
    with organization_feed(member, after=seen) as feed:
        assert describe(feed.read(2)) == starts_and_ends("later")
    with organization_feed(member, after=0) as feed:
        assert describe(feed.read(4)) == starts_and_ends("earlier", "later")


@pytest.mark.parametrize("last", range(4))
def test_p_r10_feed_with_last_id_shows_later_events(last: int, member: Member) -> None:
    ids_by_job = [publish_texts(member, *SUCCESS, job=name) for name in ("a", "b")]
    ids = [job_ids[index] for job_ids in ids_by_job for index in (0, -1)]
    with organization_feed(member, f"org-{ids[last]}") as feed:
        publish_texts(member, *SUCCESS, job="c")
        assert describe(feed.read(5 - last)) == starts_and_ends("a", "b", "c")[last + 1 :]


def test_p_r10_last_id_takes_precedence_over_after(member: Member) -> None:
    first, *_ = publish_texts(member, *SUCCESS)
    with organization_feed(member, f"org-{first}", after=0) as feed:
        assert describe(feed.read(1)) == ["job_complete j1 complete"]


@pytest.mark.parametrize("last_id", ["no_such_id", "start_id", "org-1", "job-{0}", "org-{1}", "org-{5}0", "-", "{0}"])
def test_p_r12_unknown_id_gets_start_of_history(last_id: str, member: Member) -> None:
    ids = publish_texts(member, *SUCCESS)
    with organization_feed(member, last_id.format(*ids)) as feed:
        history, *events = feed.read(3)
    assert is_start_of_history(history, 600)
    assert describe(events) == starts_and_ends("j1")


def test_p_r12_id_of_another_organization_is_unknown(member: Member, server: Server) -> None:
    foreign, *_ = publish_texts(server.organization(), *SUCCESS)
    own = publish_texts(member, *SUCCESS)
    while foreign in own:  # Two logs have the same EventId if both were written in the same millisecond.
        foreign, *_ = publish_texts(server.organization(), *SUCCESS)
    with organization_feed(member, f"org-{foreign}") as feed:
        assert describe(feed.read(3)) == ["start_of_history", *starts_and_ends("j1")]


def test_p_r12_feed_continues_after_history(member: Member) -> None:
    publish_texts(member, *SUCCESS, job="old")
    with organization_feed(member, "no_such_id") as feed:
        assert describe(feed.read(3)) == ["start_of_history", *starts_and_ends("old")]
        publish_texts(member, *SUCCESS, job="new")
        assert describe(feed.read(2)) == starts_and_ends("new")


def test_p_r12_expired_events_are_not_repeated(expiring_server: Server) -> None:
    member = expiring_server.organization()
    first, *_ = publish_texts(member, *SUCCESS, job="old")
    wait(member, EXPIRATION_S + 0.5)
    with organization_feed(member, f"org-{first}") as feed:
        (history,) = feed.read(1)
        publish_texts(member, *SUCCESS, job="new")
        assert is_start_of_history(history, EXPIRATION_S)
        assert describe(feed.read(2)) == starts_and_ends("new")
    assert describe(job_feed(member, "old").read_to_end()) == list(SUCCESS)


def test_p_r14_all_expired_shows_only_start_of_history(expiring_server: Server) -> None:
    member = expiring_server.organization()
    *_, last = publish_texts(member, *SUCCESS)
    wait(member, EXPIRATION_S + 0.5)
    with organization_feed(member, f"org-{last}") as known, organization_feed(member, "no_such_id") as unknown:
        assert [describe(feed.read(1)) for feed in (known, unknown)] == [["start_of_history"]] * 2
        publish_texts(member, "start 1", job="new")
        assert [describe(feed.read(1)) for feed in (known, unknown)] == [["start new 1"]] * 2


def test_p_r14_empty_organization_gets_start_of_history(member: Member) -> None:
    with organization_feed(member, "org-1") as feed:
        assert describe(feed.read(1)) == ["start_of_history"]
        publish_texts(member, *SUCCESS)
        assert describe(feed.read(2)) == starts_and_ends("j1")


REMAINING_EVENTS = ["job_complete c complete", "start c 1", "job_complete c complete"]


def test_feed_after_retention_shows_start_of_history(retention_server: Server) -> None:
    member = retention_server.organization()
    ids = publish_texts(member, *SUCCESS[:1], job="a") + publish_texts(member, *SUCCESS[:1], job="b")
    ids += publish_texts(member, "job_complete complete", "start 1", "job_complete complete", job="c")
    for options in ({"after": 0}, {"after": ids[0]}):
        with organization_feed(member, **options) as feed:
            assert describe(feed.read(4)) == ["start_of_history", *REMAINING_EVENTS]
    with organization_feed(member, f"org-{ids[0]}") as feed:
        assert describe(feed.read(4)) == ["start_of_history", *REMAINING_EVENTS]


def test_p_r15_jobs_can_overlap(member: Member) -> None:
    with organization_feed(member) as feed:
        for text in SUCCESS:
            publish(member, push_event(text, "a"), push_event(text, "b"))
        events = describe(feed.read(4))
    assert events == ["start a 1", "start b 1", "job_complete a complete", "job_complete b complete"]


def test_p_r15_overlapping_jobs_have_separate_feeds(member: Member) -> None:
    jobs = ["a", "b", "c", "d"]
    for turn in range(len(SUCCESS) + len(jobs) - 1):  # each job begins one step after the previous one
        steps = [(name, turn - index) for index, name in enumerate(jobs)]
        publish(member, *(push_event(SUCCESS[step], name) for name, step in steps if 0 <= step < len(SUCCESS)))
    assert [describe(job_feed(member, name).read_to_end()) for name in jobs] == [list(SUCCESS)] * 4
    with organization_feed(member, after=0) as feed:
        events = describe(feed.read(8))
    assert [[text for text in events if text.split()[1] == name] for name in jobs] == [
        starts_and_ends(name) for name in jobs
    ]


def test_p_r18_organization_feed_shows_only_starts_and_ends(member: Member) -> None:
    rest = ("quorum_vote n2 down", "rehab n2", *SUCCESS[1:5])
    with organization_feed(member) as feed:
        publish_texts(member, *rest)
        publish_texts(member, SUCCESS[0])
        for text in rest:
            publish_texts(member, text)
        publish_texts(member, SUCCESS[-1])
        publish_texts(member, *rest, job="without start")
        publish_texts(member, "start 1", job="last")
        assert describe(feed.read(3)) == [*starts_and_ends("j1"), "start last 1"]
