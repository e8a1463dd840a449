"""Feeds of organizations over time: their push jobs, what is left of history, who comes back to it (P-R)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.push.push_client import (
    PAGES,
    STREAMS,
    SUCCESS,
    Sent,
    fact,
    happen,
    job_feed,
    organization_feed,
    pause,
    publish,
    told,
)
from tests.serving import Member, Server, serving

MANNERS = {"streams": STREAMS, "pages": PAGES}
EXPIRED_S = 2.0


@pytest.fixture(scope="module", params=MANNERS, name="server")
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp(request.param), **MANNERS[request.param]) as running:
        yield running


@pytest.fixture(scope="module", params=MANNERS)
def hasty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server where what happened soon expires."""
    manner = {**MANNERS[request.param], "ORG_FEED_EXPIRATION": str(EXPIRED_S)}
    with serving(tmp_path_factory.mktemp("hasty"), **manner) as running:
        yield running


@pytest.fixture(scope="module", params=MANNERS)
def forgetful(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that keeps the last three events of each organization."""
    manner = {**MANNERS[request.param], "RETENTION_EVENTS": "3"}
    with serving(tmp_path_factory.mktemp("forgetful"), **manner) as running:
        yield running


def in_short(*jobs: str) -> list[str]:
    """What an organization's feed tells of these jobs, one after the other."""
    return [text for name in jobs for text in (f"start {name} 1", f"job_complete {name} complete")]


def is_horizon(event: Sent, expiration_s: float) -> bool:
    """Whether the event says that history starts so long ago."""
    age = datetime.now(UTC) - datetime.fromisoformat(event.data["timestamp"])
    is_about = abs(age - timedelta(seconds=expiration_s)) < timedelta(seconds=30)
    return (event.name, event.id, list(event.data)) == ("start_of_history", "start_id", ["timestamp"]) and is_about


def test_p_r10_whoever_listens_before_a_job_hears_its_start_and_its_end(member: Member) -> None:
    happen(member, *SUCCESS, job="earlier")
    with organization_feed(member) as feed:
        first, *_ = happen(member, *SUCCESS[:3])
        happen(member, *SUCCESS[3:5])
        (last,) = happen(member, SUCCESS[-1])
        events = feed.take(2)
    assert told(events) == in_short("j1")
    assert [event.id for event in events] == [f"org-{first}", f"org-{last}"]


def test_p_r10_whoever_says_from_where_misses_nothing(member: Member) -> None:
    *_, seen = happen(member, *SUCCESS, job="earlier")
    happen(member, *SUCCESS, job="later")
    with organization_feed(member, after=seen) as feed:
        assert told(feed.take(2)) == in_short("later")
    with organization_feed(member, after=0) as feed:
        assert told(feed.take(4)) == in_short("earlier", "later")


@pytest.mark.parametrize("last", range(4))
def test_p_r10_whoever_comes_back_to_an_organization_hears_what_came_since(last: int, member: Member) -> None:
    both = [happen(member, *SUCCESS, job=name) for name in ("a", "b")]
    ids = [ids[place] for ids in both for place in (0, -1)]
    with organization_feed(member, f"org-{ids[last]}") as feed:
        happen(member, *SUCCESS, job="c")
        assert told(feed.take(5 - last)) == in_short("a", "b", "c")[last + 1 :]


def test_p_r10_the_id_wins_over_the_place_to_begin(member: Member) -> None:
    first, *_ = happen(member, *SUCCESS)
    with organization_feed(member, f"org-{first}", after=0) as feed:
        assert told(feed.take(1)) == ["job_complete j1 complete"]


@pytest.mark.parametrize("last_id", ["no_such_id", "start_id", "org-1", "job-{0}", "org-{1}", "org-{5}0", "-", "{0}"])
def test_p_r12_whoever_has_an_unknown_id_is_told_that_history_starts_here(last_id: str, member: Member) -> None:
    ids = happen(member, *SUCCESS)
    with organization_feed(member, last_id.format(*ids)) as feed:
        history, *events = feed.take(3)
    assert is_horizon(history, 600)
    assert told(events) == in_short("j1")


def test_p_r12_an_id_of_another_organization_is_unknown(member: Member, server: Server) -> None:
    first, *_ = happen(server.organization(), *SUCCESS)
    happen(member, *SUCCESS)
    with organization_feed(member, f"org-{first}") as feed:
        assert told(feed.take(3)) == ["start_of_history", *in_short("j1")]


def test_p_r12_history_goes_on_with_what_is_new(member: Member) -> None:
    happen(member, *SUCCESS, job="old")
    with organization_feed(member, "no_such_id") as feed:
        assert told(feed.take(3)) == ["start_of_history", *in_short("old")]
        happen(member, *SUCCESS, job="new")
        assert told(feed.take(2)) == in_short("new")


def test_p_r12_what_has_expired_is_not_told_again(hasty: Server) -> None:
    member = hasty.organization()
    first, *_ = happen(member, *SUCCESS, job="old")
    pause(member, EXPIRED_S + 0.5)
    with organization_feed(member, f"org-{first}") as feed:
        (history,) = feed.take(1)
        happen(member, *SUCCESS, job="new")
        assert is_horizon(history, EXPIRED_S)
        assert told(feed.take(2)) == in_short("new")
    assert told(job_feed(member, "old").rest()) == list(SUCCESS)


def test_p_r14_when_all_has_expired_there_is_nothing_but_the_start_of_history(hasty: Server) -> None:
    member = hasty.organization()
    *_, last = happen(member, *SUCCESS)
    pause(member, EXPIRED_S + 0.5)
    with organization_feed(member, f"org-{last}") as known, organization_feed(member, "no_such_id") as unknown:
        assert [told(feed.take(1)) for feed in (known, unknown)] == [["start_of_history"]] * 2
        happen(member, "start 1", job="new")
        assert [told(feed.take(1)) for feed in (known, unknown)] == [["start new 1"]] * 2


def test_p_r14_an_organization_without_history_has_a_start_of_it(member: Member) -> None:
    with organization_feed(member, "org-1") as feed:
        assert told(feed.take(1)) == ["start_of_history"]
        happen(member, *SUCCESS)
        assert told(feed.take(2)) == in_short("j1")


KEPT_OF_C = ["job_complete c complete", "start c 1", "job_complete c complete"]


def test_what_is_forgotten_for_good_is_where_history_starts(forgetful: Server) -> None:
    member = forgetful.organization()
    ids = happen(member, *SUCCESS[:1], job="a") + happen(member, *SUCCESS[:1], job="b")
    ids += happen(member, "job_complete complete", "start 1", "job_complete complete", job="c")
    for options in ({"after": 0}, {"after": ids[0]}):
        with organization_feed(member, **options) as feed:
            assert told(feed.take(4)) == ["start_of_history", *KEPT_OF_C]
    with organization_feed(member, f"org-{ids[0]}") as feed:
        assert told(feed.take(4)) == ["start_of_history", *KEPT_OF_C]


def test_p_r15_jobs_may_overlap(member: Member) -> None:
    with organization_feed(member) as feed:
        for text in SUCCESS:
            publish(member, fact(text, "a"), fact(text, "b"))
        events = told(feed.take(4))
    assert events == ["start a 1", "start b 1", "job_complete a complete", "job_complete b complete"]


def test_p_r15_jobs_that_overlap_are_told_apart(member: Member) -> None:
    jobs = ["a", "b", "c", "d"]
    for place in range(len(SUCCESS) + len(jobs) - 1):  # each job begins one step after the other
        steps = [(name, place - late) for late, name in enumerate(jobs)]
        publish(member, *(fact(SUCCESS[step], name) for name, step in steps if 0 <= step < len(SUCCESS)))
    assert [told(job_feed(member, name).rest()) for name in jobs] == [list(SUCCESS)] * 4
    with organization_feed(member, after=0) as feed:
        events = told(feed.take(8))
    assert [[text for text in events if text.split()[1] == name] for name in jobs] == [in_short(name) for name in jobs]


def test_p_r18_an_organization_hears_of_starts_and_ends_only(member: Member) -> None:
    rest = ("quorum_vote n2 down", "rehab n2", *SUCCESS[1:5])
    with organization_feed(member) as feed:
        happen(member, *rest)
        happen(member, SUCCESS[0])
        for text in rest:
            happen(member, text)
        happen(member, SUCCESS[-1])
        happen(member, *rest, job="of which nobody knows the start")
        happen(member, "start 1", job="last")
        assert told(feed.take(3)) == [*in_short("j1"), "start last 1"]
