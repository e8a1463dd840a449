"""The PyPI package httpx-sse with a reconnect loop, which it leaves to its users."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
from httpx_sse import EventSource, connect_sse

from tests.clients.feed_client import FollowTask
from tests.clients.recorder import TIMEOUT_S, Feed, Recorder

RETRY_S = 0.5


class HttpxSse:
    """Reads one response. The caller reconnects with the last event id."""

    name = "httpx-sse"

    def missing(self) -> str | None:
        return None

    @contextmanager
    def follow(self, task: FollowTask) -> Iterator[None]:
        task.start(self.name)
        with ExitStack() as running:
            followers = [_Follower(self.name, task, feed) for feed in task.feeds]
            for follower in followers:
                running.callback(follower.join, TIMEOUT_S)
                follower.start()
            for follower in followers:
                running.callback(follower.stop)
            yield


class _Follower(threading.Thread):
    def __init__(self, client: str, task: FollowTask, feed: Feed) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._recorder: Recorder = task.recorder
        self._url = task.url + feed.path
        self._feed = feed
        self._headers = {"Authorization": f"Bearer {task.token}"}
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None

    def run(self) -> None:
        """Reconnect repeatedly with the last event id."""
        with httpx.Client(timeout=httpx.Timeout(TIMEOUT_S), trust_env=False) as http:
            while not self._stopped.is_set():
                try:
                    with connect_sse(http, "GET", self._url, headers=dict(self._headers)) as source:
                        self._read(source)
                    self._report(lost="the response ended")
                except httpx.TransportError as error:  # also raised if the response is not an event stream
                    self._report(lost=repr(error))
                self._stopped.wait(RETRY_S)

    def stop(self) -> None:
        """Stop, even while waiting for events."""
        self._stopped.set()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self, source: EventSource) -> None:
        self._socket = source.response.extensions["network_stream"].get_extra_info("socket")
        if source.response.status_code != 200:
            self._report(gaveUp=source.response.status_code)
            self._stopped.set()
        if self._stopped.is_set():
            return
        self._report(open=True)
        for sse in source.iter_sse():
            self._headers["Last-Event-ID"] = sse.id
            if sse.data:
                self._report(event=sse.event, id=sse.id, data=sse.data)
            if sse.event == self._feed.last:
                self._stopped.set()
                return

    def _report(self, **report: Any) -> None:
        if not self._stopped.is_set() or "gaveUp" in report:
            self._recorder.record_report(self._client, {"feed": self._feed.name, **report})
