"""`follow`: every event exactly once and in order, despite faults."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from annals_client import Annals, Event, NewEvent, NotAllowed, Torn, Unavailable
from tests.client.both_clients import ClientFactory, immediate_retries
from tests.fault_proxy import HttpFault, ScriptedProxy
from tests.serving import TIMEOUT_S, Member, Server, run_server


def test_follow_yields_stored_then_new_events(annals: Annals, member: Member, background: ThreadPoolExecutor) -> None:
    member.publish("a", "b")
    feed = annals.follow()
    assert _paths(feed, 2) == ["a", "b"]
    coming = background.submit(_paths, feed, 2)
    member.publish("c")
    member.publish("d")
    assert coming.result(TIMEOUT_S) == ["c", "d"]


def test_follow_filters_types_and_keys(annals: Annals) -> None:
    annals.publish([NewEvent("a/x", "/1"), NewEvent("a/y", "/2"), NewEvent("b", "/1"), NewEvent("a/z", "/1")])
    assert _paths(annals.follow(types=["a/*"], keys=["/1"], to_now=True)) == ["a/x", "a/z"]
    assert _paths(annals.follow(types="b", to_now=True)) == ["b"]


def test_newest_event_id_continues_with_follow(annals: Annals, member: Member) -> None:
    member.publish("a", "b", "c", "other")
    newest = annals.newest(2, types=["a", "b", "c"])
    member.publish("d")
    assert [event.path for event in newest.events] == ["b", "c"]
    assert _paths(annals.follow(after=newest.event_id, to_now=True)) == ["d"]
    assert annals.newest(0).events == ()


def test_follow_lost_responses_skips_and_repeats_nothing(
    proxied_annals: Annals, proxy: ScriptedProxy, member: Member, background: ThreadPoolExecutor
) -> None:
    faults = [
        HttpFault.LOSE_RESPONSE,
        HttpFault.CUT_RESPONSE,
        None,
        HttpFault.UNAVAILABLE,
        HttpFault.LOSE_REQUEST,
        None,
    ]
    proxy.planned.extend(faults * 40)
    feed = proxied_annals.follow(types=["matching"])
    for number in range(30):
        coming = background.submit(_paths, feed, 2)
        member.publish("matching", "other", "matching")
        assert coming.result(TIMEOUT_S) == ["matching", "matching"], number
    assert len(proxy.planned) < 200


def test_follow_server_killed_resumes_after_restart(
    create_client: ClientFactory, tmp_path: Path, background: ThreadPoolExecutor
) -> None:
    noticed = threading.Event()
    with run_server(tmp_path) as first:
        member = first.organization()
        feed = create_client(
            first.url, member.token, retry_policy=immediate_retries(jitter=lambda _: _notice(noticed))
        ).follow()
        member.publish("before")
        assert _paths(feed, 1) == ["before"]
        coming = background.submit(_paths, feed, 2)
        first.signal(signal.SIGKILL)
        first.exit_code()
    assert noticed.wait(TIMEOUT_S)
    with run_server(tmp_path, PORT=str(first.port)) as second:
        again = second.member(member.organization)
        again.publish("after")
        again.publish("that")
        assert coming.result(TIMEOUT_S) == ["after", "that"]
        assert _paths(create_client(second.url, member.token).follow(to_now=True)) == ["before", "after", "that"]


def test_publish_and_follow_survive_repeated_kills(
    create_client: ClientFactory, tmp_path: Path, background: ThreadPoolExecutor
) -> None:
    server = Server(tmp_path)
    try:
        member = server.organization()
        feed = create_client(server.url, member.token, retry_policy=immediate_retries(jitter=lambda _: 0.05)).follow()
        publishing = background.submit(_publish_all, server.url, member.token)
        seen: list[str | None] = []
        for _ in range(3):
            seen += (event.key for event in islice(feed, 10))
            server.close()
            server = Server(tmp_path, PORT=str(server.port))
        seen += (event.key for event in islice(feed, 70))
        publishing.result(TIMEOUT_S)
        stored = server.member(member.organization).read_log()["events"]
    finally:
        server.close()
    assert seen == [event["key"] for event in stored] == [f"/{number}" for number in range(100)]


def test_publish_while_server_down_writes_once(
    create_client: ClientFactory, tmp_path: Path, background: ThreadPoolExecutor
) -> None:
    noticed = threading.Event()
    with run_server(tmp_path) as first:
        member = first.organization()
    annals = create_client(first.url, member.token, retry_policy=immediate_retries(jitter=lambda _: _notice(noticed)))
    publishing = background.submit(annals.publish, [NewEvent("a")])
    assert noticed.wait(TIMEOUT_S)
    with run_server(tmp_path, PORT=str(first.port)) as second:
        published = publishing.result(TIMEOUT_S)
        stored = second.member(member.organization).read_log()["events"]
    assert [event["eventId"] for event in stored] == [published.event_id]


def test_follow_no_first_response_raises_unavailable(
    create_client: ClientFactory, proxy: ScriptedProxy, member: Member
) -> None:
    proxy.planned.extend([HttpFault.LOSE_REQUEST] * 100)
    with pytest.raises(Unavailable):
        next(create_client(proxy.url, member.token, deadline_s=0.3).follow())


def test_follow_expired_token_raises_not_allowed(create_client: ClientFactory, server: Server, member: Member) -> None:
    member.publish("a")
    tokens = iter([member.token, "ended"])
    feed = create_client(server.url, lambda: next(tokens)).follow()
    assert _paths(feed, 1) == ["a"]
    with pytest.raises(NotAllowed):
        next(feed)


def test_follow_gap_raises_torn_with_position(create_client: ClientFactory, short_retention: Server) -> None:
    member = short_retention.organization()
    annals = create_client(short_retention.url, member.token)
    first = member.publish("a")[0]["eventId"]
    feed = annals.follow(after=first)
    member.publish("b", "c", "d")
    with pytest.raises(Torn) as torn:
        next(feed)
    assert _paths(annals.follow(after=torn.value.event_id, to_now=True)) == ["c", "d"]
    assert _paths(annals.follow(to_now=True)) == ["c", "d"]


@pytest.fixture(scope="module")
def short_retention(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that retains the last two events of each organization."""
    with run_server(tmp_path_factory.mktemp("short_retention"), RETENTION_EVENTS="2") as running:
        yield running


def _paths(feed: Iterator[Event], count: int | None = None) -> list[str]:
    return [event.path for event in islice(feed, count)]


def _publish_all(url: str, token: str) -> None:
    with Annals(url, token, retry_policy=immediate_retries(jitter=lambda _: 0.05), trust_env=False) as annals:
        for number in range(100):
            annals.publish([NewEvent("a", key=f"/{number}")])


def _notice(noticed: threading.Event) -> float:
    noticed.set()
    return 0.05
