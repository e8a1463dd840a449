"""A proxy in front of an AWS endpoint that injects faults."""

import http.client
import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

HANG_S = 20.0


@dataclass(frozen=True)
class Call:
    """A call of the client."""

    operation: str
    content: bytes

    @property
    def tables(self) -> set[str]:
        """The tables that the call names."""
        request: dict[str, Any] = json.loads(self.content)
        return {*request.get("RequestItems", ()), *filter(None, [request.get("TableName")])}


@dataclass(frozen=True)
class Response:
    """A response of the endpoint."""

    status: int
    content: bytes
    checksum: int | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.content)


Forward = Callable[[], Response]
"""Forwards the call to the real endpoint."""
Fault = Callable[[Call, Forward], Response | None]
"""Returns the response to send. None closes the connection without one."""


def respond_with_error(code: str, status: int = 400, **members: object) -> Fault:
    """Respond with an AWS error. The call is not executed."""
    content = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "not now", **members}
    return lambda _, __: Response(status, json.dumps(content).encode())


def cut_connection(_: Call, __: Forward) -> None:
    """Close the connection. The call is not executed."""


def lose_response(_: Call, forward: Forward) -> None:
    """Execute the call and close the connection without a response."""
    forward()


def execute_but_report_error(code: str, status: int = 400) -> Fault:
    """Execute the call and respond with an AWS error."""

    def fault(call: Call, forward: Forward) -> Response | None:
        forward()
        return respond_with_error(code, status)(call, forward)

    return fault


def respond_with_html(_: Call, __: Forward) -> Response:
    """Respond with HTML and status 200, like a broken proxy. The call is not executed."""
    return Response(200, b"<html>It works!</html>")


def execute_but_respond_with_html(call: Call, forward: Forward) -> Response:
    """Execute the call and respond with HTML."""
    forward()
    return respond_with_html(call, forward)


def truncate_response(_: Call, forward: Forward) -> Response:
    """Execute the call and send half of the response."""
    response = forward()
    return Response(response.status, response.content[: len(response.content) // 2])


def corrupt_checksum(_: Call, forward: Forward) -> Response:
    """Execute the call and send a response that does not match its checksum."""
    response = forward()
    return Response(response.status, response.content + b" ", zlib.crc32(response.content))


def leave_batch_unprocessed(call: Call, forward: Forward) -> Response:
    """Report all keys of a batch as unprocessed."""
    del forward
    content = {"Responses": {}, "UnprocessedKeys": json.loads(call.content)["RequestItems"]}
    return Response(200, json.dumps(content).encode())


@dataclass
class FaultyEndpoint:
    """The current fault and the calls it has affected."""

    url: str
    calls: Counter[str] = field(default_factory=Counter)
    """Number of calls of each operation while a fault is active."""
    ended: threading.Event = field(default_factory=threading.Event)
    _fault: Fault | None = None
    _applies_to: Callable[[Call], bool] = lambda _: True
    _remaining: float = 0

    @contextmanager
    def failing(
        self, fault: Fault, *operations: str, table: str | None = None, times: float = float("inf")
    ) -> Iterator[Counter[str]]:
        """Let these operations, or all, fail `times` times, and count their calls."""

        def applies_to(call: Call) -> bool:
            return (not operations or call.operation in operations) and (table is None or table in call.tables)

        self.calls.clear()
        self._fault, self._applies_to, self._remaining = fault, applies_to, times
        try:
            yield self.calls
        finally:
            self._fault = None

    def hang(self, _: Call, __: Forward) -> None:
        """Do not respond until the test ends."""
        self.ended.wait(HANG_S)

    def respond(self, call: Call, forward: Forward) -> Response | None:
        fault = self._fault
        if fault is None or not self._applies_to(call):
            return forward()
        self.calls[call.operation] += 1
        self._remaining -= 1
        return fault(call, forward) if self._remaining >= 0 else forward()


@contextmanager
def faulty_endpoint(store: str) -> Iterator[FaultyEndpoint]:
    """A faulty endpoint in front of `store`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.daemon_threads = True
        endpoint = FaultyEndpoint(f"http://127.0.0.1:{server.server_port}")
        server.RequestHandlerClass = _handler(endpoint, urlsplit(store).netloc)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield endpoint
        finally:
            endpoint.ended.set()
            server.shutdown()
            thread.join()


def _handler(endpoint: FaultyEndpoint, store: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            call = Call(self.headers.get("X-Amz-Target", "").rpartition(".")[2], content)
            response = endpoint.respond(call, lambda: _forward(store, self, content))
            if response is None:
                self.close_connection = True
                return
            self.send_response(response.status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(response.content)))
            if response.checksum is not None:
                self.send_header("x-amz-crc32", str(response.checksum))
            self.end_headers()
            self.wfile.write(response.content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _forward(store: str, handler: BaseHTTPRequestHandler, content: bytes) -> Response:
    connection = http.client.HTTPConnection(store, timeout=HANG_S)
    headers = {name: value for name, value in handler.headers.items() if name.lower() != "accept-encoding"}
    connection.request("POST", handler.path, content, headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return Response(response.status, body)
