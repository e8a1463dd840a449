"""Following: every event once and in order, whatever happens on the way."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from annals_client import Annals, Event, NewEvent, NotAllowed, Torn, Unavailable
from tests.client.proxy import Misdeed, Proxy
from tests.client.talking import Talk, hasty
from tests.serving import PATIENCE_S, Member, Server, serving


def test_what_there_is_comes_first_then_what_comes(annals: Annals, member: Member, beside: ThreadPoolExecutor) -> None:
    member.publish("a", "b")
    feed = annals.follow()
    assert _paths(feed, 2) == ["a", "b"]
    coming = beside.submit(_paths, feed, 2)
    member.publish("c")
    member.publish("d")
    assert coming.result(PATIENCE_S) == ["c", "d"]


def test_only_what_is_wanted_comes(annals: Annals) -> None:
    annals.publish([NewEvent("a/x", "/1"), NewEvent("a/y", "/2"), NewEvent("b", "/1"), NewEvent("a/z", "/1")])
    assert _paths(annals.follow(types=["a/*"], keys=["/1"], to_now=True)) == ["a/x", "a/z"]
    assert _paths(annals.follow(types="b", to_now=True)) == ["b"]


def test_the_newest_lead_over_to_what_comes(annals: Annals, member: Member) -> None:
    member.publish("a", "b", "c", "other")
    newest = annals.newest(2, types=["a", "b", "c"])
    member.publish("d")
    assert [event.path for event in newest.events] == ["b", "c"]
    assert _paths(annals.follow(after=newest.event_id, to_now=True)) == ["d"]
    assert annals.newest(0).events == ()


def test_nothing_is_doubled_or_skipped_while_answers_are_lost(
    through: Annals, proxy: Proxy, member: Member, beside: ThreadPoolExecutor
) -> None:
    misdeeds = [Misdeed.LOSE_ANSWER, Misdeed.CUT_ANSWER, None, Misdeed.NOT_NOW, Misdeed.LOSE_REQUEST, None]
    proxy.planned.extend(misdeeds * 40)
    feed = through.follow(types=["wanted"])
    for number in range(30):
        coming = beside.submit(_paths, feed, 2)
        member.publish("wanted", "other", "wanted")
        assert coming.result(PATIENCE_S) == ["wanted", "wanted"], number
    assert len(proxy.planned) < 200


def test_a_killed_server_is_waited_for(talk: Talk, tmp_path: Path, beside: ThreadPoolExecutor) -> None:
    noticed = threading.Event()
    with serving(tmp_path) as first:
        member = first.organization()
        feed = talk(first.url, member.token, manners=hasty(jittered=lambda _: _noticing(noticed))).follow()
        member.publish("before")
        assert _paths(feed, 1) == ["before"]
        coming = beside.submit(_paths, feed, 2)
        first.signal(signal.SIGKILL)
        first.exit_code()
    assert noticed.wait(PATIENCE_S)
    with serving(tmp_path, PORT=str(first.port)) as second:
        again = second.member(member.organization)
        again.publish("after")
        again.publish("that")
        assert coming.result(PATIENCE_S) == ["after", "that"]
        assert _paths(talk(second.url, member.token).follow(to_now=True)) == ["before", "after", "that"]


def test_publishers_and_followers_outlive_a_server_that_is_killed_again_and_again(
    talk: Talk, tmp_path: Path, beside: ThreadPoolExecutor
) -> None:
    server = Server(tmp_path)
    try:
        member = server.organization()
        feed = talk(server.url, member.token, manners=hasty(jittered=lambda _: 0.05)).follow()
        publishing = beside.submit(_publish_all, server.url, member.token)
        seen: list[str | None] = []
        for _ in range(3):
            seen += (event.key for event in islice(feed, 10))
            server.close()
            server = Server(tmp_path, PORT=str(server.port))
        seen += (event.key for event in islice(feed, 70))
        publishing.result(PATIENCE_S)
        stored = server.member(member.organization).stored()["events"]
    finally:
        server.close()
    assert seen == [event["key"] for event in stored] == [f"/{number}" for number in range(100)]


def test_what_is_published_while_the_server_is_away_is_written_once(
    talk: Talk, tmp_path: Path, beside: ThreadPoolExecutor
) -> None:
    noticed = threading.Event()
    with serving(tmp_path) as first:
        member = first.organization()
    annals = talk(first.url, member.token, manners=hasty(jittered=lambda _: _noticing(noticed)))
    publishing = beside.submit(annals.publish, [NewEvent("a")])
    assert noticed.wait(PATIENCE_S)
    with serving(tmp_path, PORT=str(first.port)) as second:
        published = publishing.result(PATIENCE_S)
        stored = second.member(member.organization).stored()["events"]
    assert [event["eventId"] for event in stored] == [published.event_id]


def test_a_first_answer_has_to_come_until_the_deadline(talk: Talk, proxy: Proxy, member: Member) -> None:
    proxy.planned.extend([Misdeed.LOSE_REQUEST] * 100)
    with pytest.raises(Unavailable):
        next(talk(proxy.url, member.token, deadline_s=0.3).follow())


def test_a_token_that_has_ended_ends_it(talk: Talk, server: Server, member: Member) -> None:
    member.publish("a")
    tokens = iter([member.token, "ended"])
    feed = talk(server.url, lambda: next(tokens)).follow()
    assert _paths(feed, 1) == ["a"]
    with pytest.raises(NotAllowed):
        next(feed)


def test_a_gap_is_raised_and_says_where_to_go_on(talk: Talk, forgetful: Server) -> None:
    member = forgetful.organization()
    annals = talk(forgetful.url, member.token)
    first = member.publish("a")[0]["eventId"]
    feed = annals.follow(after=first)
    member.publish("b", "c", "d")
    with pytest.raises(Torn) as torn:
        next(feed)
    assert _paths(annals.follow(after=torn.value.event_id, to_now=True)) == ["c", "d"]
    assert _paths(annals.follow(to_now=True)) == ["c", "d"]


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that keeps the last two events of each organization."""
    with serving(tmp_path_factory.mktemp("forgetful"), RETENTION_EVENTS="2") as running:
        yield running


def _paths(feed: Iterator[Event], count: int | None = None) -> list[str]:
    return [event.path for event in islice(feed, count)]


def _publish_all(url: str, token: str) -> None:
    with Annals(url, token, manners=hasty(jittered=lambda _: 0.05), trust_env=False) as annals:
        for number in range(100):
            annals.publish([NewEvent("a", key=f"/{number}")])


def _noticing(noticed: threading.Event) -> float:
    noticed.set()
    return 0.05
