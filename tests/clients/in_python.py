"""PyPI's httpx-sse, with the loop around it that its documentation leaves to whoever uses it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
from httpx_sse import EventSource, connect_sse

from tests.clients.following import Errand
from tests.clients.notes import PATIENCE_S, Feed, Notes

RETRY_S = 0.5


class HttpxSse:
    """It reads one answer; to come back with its last id is its caller's business."""

    name = "httpx-sse"

    def missing(self) -> str | None:
        """Nothing: it is installed with the other packages."""
        return None

    @contextmanager
    def following(self, errand: Errand) -> Iterator[None]:
        """One thread for each feed."""
        errand.begin(self.name)
        with ExitStack() as running:
            followers = [_Follower(self.name, errand, feed) for feed in errand.feeds]
            for follower in followers:
                running.callback(follower.join, PATIENCE_S)
                follower.start()
            for follower in followers:
                running.callback(follower.stop)
            yield


class _Follower(threading.Thread):
    def __init__(self, client: str, errand: Errand, feed: Feed) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._notes: Notes = errand.notes
        self._url = errand.url + feed.path
        self._feed = feed
        self._headers = {"Authorization": f"Bearer {errand.token}"}
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None

    def run(self) -> None:
        """Ask again and again, each time for what comes after the last event."""
        with httpx.Client(timeout=httpx.Timeout(PATIENCE_S), trust_env=False) as http:
            while not self._stopped.is_set():
                try:
                    with connect_sse(http, "GET", self._url, headers=dict(self._headers)) as source:
                        self._read(source)
                    self._tell(lost="the answer ended")
                except httpx.TransportError as error:  # also an answer that is no stream of events
                    self._tell(lost=repr(error))
                self._stopped.wait(RETRY_S)

    def stop(self) -> None:
        """Come to an end, also while nothing comes."""
        self._stopped.set()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self, source: EventSource) -> None:
        self._socket = source.response.extensions["network_stream"].get_extra_info("socket")
        if source.response.status_code != 200:
            self._tell(gaveUp=source.response.status_code)
            self._stopped.set()
        if self._stopped.is_set():
            return
        self._tell(open=True)
        for sse in source.iter_sse():
            self._headers["Last-Event-ID"] = sse.id
            if sse.data:
                self._tell(event=sse.event, id=sse.id, data=sse.data)
            if sse.event == self._feed.last:
                self._stopped.set()
                return

    def _tell(self, **told: Any) -> None:
        if not self._stopped.is_set() or "gaveUp" in told:
            self._notes.tell(self._client, {"feed": self._feed.name, **told})
