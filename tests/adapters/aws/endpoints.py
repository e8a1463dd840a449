"""Endpoints that a test can have instead of AWS: real servers on loopback, with failings."""

import http.client
import select
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def closing_server() -> Iterator[str]:
    """A server that reads a request and hangs up."""

    class HangUp(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serving(HangUp) as endpoint:
        yield endpoint


class Forwarding(BaseHTTPRequestHandler):
    """Passes requests on to `target`, and the answers back."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    target: str

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.passing(body)
        connection = http.client.HTTPConnection(urlsplit(self.target).netloc, timeout=10)
        connection.request("POST", self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if not self.is_lost(answer.status):
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("connection", "content-length", "date", "server", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def passing(self, body: bytes) -> None:
        """See what is passed on."""

    def is_lost(self, status: int) -> bool:
        """Whether an answer is not passed back."""
        del status
        return False

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def losing_proxy(target: str) -> Iterator[tuple[str, list[int]]]:
    """A server between us and a target that passes the first request on and loses the answer; and what it lost."""
    lost: list[int] = []

    class LoseFirst(Forwarding):
        def is_lost(self, status: int) -> bool:
            if lost:
                return False
            lost.append(status)
            self.close_connection = True
            return True

    LoseFirst.target = target
    with serving(LoseFirst) as endpoint:
        yield endpoint, lost


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a server whose requests are handled so."""
    with _Server(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def tunnel() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A proxy that connects to whatever it is asked for; and what that was, with who asked."""
    asked: list[tuple[str, str | None]] = []

    class Tunnel(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.append((self.path, self.headers["Proxy-Authorization"]))
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port))) as far:
                self.send_response(200)
                self.end_headers()
                ends = {self.connection: far, far: self.connection}
                while all(_passed_on(end, ends[end]) for end in select.select(list(ends), [], [])[0]):
                    pass
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serving(Tunnel) as endpoint:
        yield endpoint, asked


def _passed_on(source: socket.socket, target: socket.socket) -> bool:
    """Pass on what came; whether more can come."""
    data = source.recv(65536)
    target.sendall(data)
    return bool(data)


@dataclass(frozen=True)
class Request:
    """What came; the names of headers in lower case."""

    headers: dict[str, str]
    body: bytes
    port: int
    """Of the other end: each connection has its own."""


@dataclass(frozen=True)
class Reply:
    """What a server says."""

    status: int = 200
    content: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    then_closes: bool = False


@contextmanager
def noting_server(*replies: Reply, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[Request]]]:
    """A server that gives these replies in turn, then an empty one again and again; and what it was asked."""
    requests: list[Request] = []
    waiting = deque(replies)

    class Noting(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.append(Request(headers, body, self.client_address[1]))
            reply = waiting.popleft() if waiting else Reply()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Transfer-Encoding" not in reply.headers:
                self.send_header("Content-Length", str(len(reply.content)))
            self.end_headers()
            self.wfile.write(reply.content)
            self.wfile.flush()
            if reply.then_closes:
                # Without a word about it: as servers do that have waited for long enough.
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serving(Noting, tls) as endpoint:
        yield endpoint, requests
