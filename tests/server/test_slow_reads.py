"""Parked responses that read a slow store: they continue in worker threads and do not delay the others."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

from chalicelib.domain.events.head import Head
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.feeds.notifiers import CommitNotifier
from chalicelib.services.feeds.suspension import Wait
from infra.server.http.connection import Connection
from infra.server.http.parked_responses import ParkedResponses
from infra.server.http.response_writer import Steps
from tests.services.feeds.test_notifiers import commits_of_types
from tests.serving import TIMEOUT_S

FOLLOW = Wait(Head(1), Selection(), TIMEOUT_S)


class Responses:
    """Parked responses, the sockets of their clients, and the threads in which the responses have read."""

    def __init__(self, stack: ExitStack, has_slow_reads: bool) -> None:
        self._stack = stack
        self.notifier = CommitNotifier()
        self.threads: SimpleQueue[str] = SimpleQueue()
        self._workers = stack.enter_context(ThreadPoolExecutor(1, "worker"))
        self._parked = ParkedResponses(
            self.notifier, lambda _: None, self._resume, idle_timeout_s=600, has_slow_reads=has_slow_reads
        )
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def park(self, steps: Steps) -> socket.socket:
        """Park a response that waits for a commit, and return the socket of its client."""
        client = self._stack.enter_context(socket.create_connection(self._listener.getsockname(), TIMEOUT_S))
        connection = Connection(self._stack.enter_context(self._listener.accept()[0]))
        self._parked.park(connection, steps, next(steps))
        return client

    def record_read(self) -> None:
        self.threads.put(threading.current_thread().name.partition("_")[0])

    def _resume(self, connection: Connection, steps: Steps) -> None:
        self._workers.submit(lambda: [connection.try_send(step) for step in steps if not isinstance(step, Wait)])


@pytest.fixture(name="stack")
def fixture_stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_slow_read_of_one_log_does_not_delay_another(stack: ExitStack) -> None:
    responses, may_read = Responses(stack, has_slow_reads=True), threading.Event()
    notifier = responses.notifier
    stack.callback(may_read.set)

    def follow(server: int) -> Steps:
        head = yield Wait(Head(server), Selection(), TIMEOUT_S)
        assert head is not None
        is_slow = notifier.commits_after(head) is None
        responses.record_read()
        assert not is_slow or may_read.wait(TIMEOUT_S)
        yield b"event"

    notifier.publish(*commits_of_types("a"))  # The log has no follower yet, so the commit is not remembered.
    quick, slow = responses.park(follow(2)), responses.park(follow(1))
    assert responses.threads.get(timeout=TIMEOUT_S) == "worker"
    notifier.publish(*commits_of_types("a", server=2))
    assert quick.recv(100) == b"event"
    assert responses.threads.get(timeout=TIMEOUT_S) == "annals-parked"
    may_read.set()
    assert slow.recv(100) == b"event"


@pytest.mark.parametrize(("has_slow_reads", "thread"), [(True, "worker"), (False, "annals-parked")])
def test_forgotten_commit_is_read_in_a_worker(has_slow_reads: bool, thread: str, stack: ExitStack) -> None:
    responses = Responses(stack, has_slow_reads)

    def follow() -> Steps:
        yield FOLLOW
        responses.record_read()
        yield b"event"

    responses.notifier.publish(*commits_of_types("a"))
    assert responses.park(follow()).recv(100) == b"event"
    assert responses.threads.get(timeout=TIMEOUT_S) == thread


@pytest.mark.parametrize(("has_slow_reads", "thread"), [(True, "worker"), (False, "annals-parked")])
def test_commits_forgotten_between_pages_are_read_in_a_worker(
    has_slow_reads: bool, thread: str, stack: ExitStack
) -> None:
    responses, subscribed = Responses(stack, has_slow_reads), threading.Event()
    first, _, third = commits_of_types("a", "b", "c")

    def follow() -> Steps:
        yield FOLLOW
        responses.record_read()
        responses.notifier.publish(third)  # After a gap: the earlier commits are forgotten.
        yield b"first"
        responses.record_read()
        yield b"second"

    def last_to_park() -> Steps:
        yield Wait(Head(2), Selection(), 0.0)
        subscribed.set()

    client = responses.park(follow())
    responses.park(last_to_park())
    assert subscribed.wait(TIMEOUT_S)
    responses.notifier.publish(first)
    assert [responses.threads.get(timeout=TIMEOUT_S) for _ in range(2)] == ["annals-parked", thread]
    received = b""
    while len(received) < len(b"firstsecond"):
        received += client.recv(100)
    assert received == b"firstsecond"
