"""A proxy before DynamoDB Local that records the calls, and holds some of them until the test releases them."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.fault_proxy import _HEAD_END, _MessageProxy, _receive_message
from tests.serving import TIMEOUT_S

_TARGET = b"dynamodb_20120810."


class RecordingProxy(_MessageProxy):
    """Forwards the calls of one hub."""

    def __init__(self, endpoint: str) -> None:
        url = urlsplit(endpoint)
        super().__init__(url.hostname or "", url.port or 0)
        self._lock = threading.RLock()
        self._has_call = threading.Condition(self._lock)
        self._calls: list[tuple[str, Any]] = []
        self._held_operation, self._held_server = "", 0
        self._arrived = threading.Semaphore(0)
        self._released = threading.Event()

    def calls(self, operation: str) -> list[Any]:
        """The parameters of the calls of an operation so far."""
        with self._lock:
            return [params for name, params in self._calls if name == operation.lower()]

    def forget_calls(self) -> None:
        with self._lock:
            self._calls.clear()

    def await_call(self, is_expected: Callable[[Any], bool]) -> None:
        """Return when the next call arrives whose parameters are as expected."""
        with self._lock:
            seen = len(self._calls)

            def has_arrived() -> bool:
                return any(is_expected(params) for _, params in self._calls[seen:])

            assert self._has_call.wait_for(has_arrived, TIMEOUT_S)

    @contextmanager
    def holding(self, operation: str, server: int = 0) -> Iterator[None]:
        """Hold the calls of an operation until the end of the block: all, or those that write to one log."""
        self._released.clear()
        self._held_operation, self._held_server = operation.lower(), server
        try:
            yield
        finally:
            self._held_operation = ""
            self._released.set()

    def await_held_call(self) -> None:
        """Return when a call is held."""
        assert self._arrived.acquire(timeout=TIMEOUT_S)

    def _exchange(self, request: bytes, client: socket.socket, server: socket.socket) -> bool:
        head, _, body = request.partition(_HEAD_END)
        operation = head.lower().partition(_TARGET)[2].partition(b"\r\n")[0].decode()
        params = json.loads(body)
        with self._lock:
            self._calls.append((operation, params))
            self._has_call.notify_all()
        if operation == self._held_operation and self._held_server in (0, _server_of(params)):
            self._arrived.release()
            assert self._released.wait(TIMEOUT_S)
        server.sendall(request)
        response = _receive_message(server)
        if response is None:
            return False
        client.sendall(response)
        return True


def _server_of(params: Any) -> int:
    return int(params["Item"]["server"]["N"])
