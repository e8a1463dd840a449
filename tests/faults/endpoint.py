"""An endpoint of AWS that misbehaves: it stands between a client and a store that is well, and does what it is told."""

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

SILENCE_S = 20.0


@dataclass(frozen=True)
class Call:
    """What a client asks for."""

    operation: str
    content: bytes

    @property
    def tables(self) -> set[str]:
        """The tables it is about, as far as it names them."""
        asked: dict[str, Any] = json.loads(self.content)
        puts = (item["Put"]["TableName"] for item in asked.get("TransactItems", ()))
        return {*puts, *asked.get("RequestItems", ()), *filter(None, [asked.get("TableName")])}


@dataclass(frozen=True)
class Answer:
    """What it gets."""

    status: int
    content: bytes
    checksum: int | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.content)


Pass = Callable[[], Answer]
"""Asks the store that is well."""
Fault = Callable[[Call, Pass], Answer | None]
"""What comes instead of the answer; None: the connection is cut."""


def refused(code: str, status: int = 400, **members: object) -> Fault:
    """An error as AWS tells it, and nothing is done."""
    content = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "not now", **members}
    return lambda _, __: Answer(status, json.dumps(content).encode())


def cut(_: Call, __: Pass) -> None:
    """The connection is closed before anything is done."""


def lost(_: Call, ask: Pass) -> None:
    """All is done, and the connection is closed instead of the answer."""
    ask()


def lost_and_refused(code: str, status: int = 400) -> Fault:
    """All is done, and an error is told."""

    def fault(call: Call, ask: Pass) -> Answer | None:
        ask()
        return refused(code, status)(call, ask)

    return fault


def made_up(_: Call, __: Pass) -> Answer:
    """Something stands between that has its own idea of an answer, and nothing is done."""
    return Answer(200, b"<html>It works!</html>")


def garbled(call: Call, ask: Pass) -> Answer:
    """All is done, and the answer is not what was said."""
    ask()
    return made_up(call, ask)


def cut_short(_: Call, ask: Pass) -> Answer:
    """The first half of an answer."""
    answer = ask()
    return Answer(answer.status, answer.content[: len(answer.content) // 2])


def falsified(_: Call, ask: Pass) -> Answer:
    """Not the answer that was sent: its checksum says so."""
    answer = ask()
    return Answer(answer.status, answer.content + b" ", zlib.crc32(answer.content))


def left_over(call: Call, ask: Pass) -> Answer:
    """A batch of which nothing is ever done."""
    del ask
    content = {"Responses": {}, "UnprocessedKeys": json.loads(call.content)["RequestItems"]}
    return Answer(200, json.dumps(content).encode())


@dataclass
class Endpoint:
    """What the test says, and what came of it."""

    url: str
    calls: Counter[str] = field(default_factory=Counter)
    """How often each operation was asked for while something was wrong."""
    ended: threading.Event = field(default_factory=threading.Event)
    _fault: Fault | None = None
    _meant: Callable[[Call], bool] = lambda _: True
    _left: float = 0

    @contextmanager
    def failing(
        self, fault: Fault, *operations: str, table: str | None = None, times: float = float("inf")
    ) -> Iterator[Counter[str]]:
        """Those operations, or all, fail so many times, and are counted."""

        def meant(call: Call) -> bool:
            return (not operations or call.operation in operations) and (table is None or table in call.tables)

        self.calls.clear()
        self._fault, self._meant, self._left = fault, meant, times
        try:
            yield self.calls
        finally:
            self._fault = None

    def silence(self, _: Call, __: Pass) -> None:
        """Nothing is said until the client has gone, or the test."""
        self.ended.wait(SILENCE_S)

    def answer(self, call: Call, ask: Pass) -> Answer | None:
        """What the client gets."""
        fault = self._fault
        if fault is None or not self._meant(call):
            return ask()
        self.calls[call.operation] += 1
        self._left -= 1
        return fault(call, ask) if self._left >= 0 else ask()


@contextmanager
def endpoint(store: str) -> Iterator[Endpoint]:
    """An endpoint in front of `store`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.daemon_threads = True
        found = Endpoint(f"http://127.0.0.1:{server.server_port}")
        server.RequestHandlerClass = _handler(found, urlsplit(store).netloc)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            found.ended.set()
            server.shutdown()
            thread.join()


def _handler(found: Endpoint, store: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            call = Call(self.headers.get("X-Amz-Target", "").rpartition(".")[2], content)
            answer = found.answer(call, lambda: _asked(store, self, content))
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(answer.content)))
            if answer.checksum is not None:
                self.send_header("x-amz-crc32", str(answer.checksum))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _asked(store: str, handler: BaseHTTPRequestHandler, content: bytes) -> Answer:
    connection = http.client.HTTPConnection(store, timeout=SILENCE_S)
    headers = {name: value for name, value in handler.headers.items() if name.lower() != "accept-encoding"}
    connection.request("POST", handler.path, content, headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return Answer(answer.status, body)
