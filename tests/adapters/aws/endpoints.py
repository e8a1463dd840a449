"""Servers on loopback that stand in for AWS in tests, some of them faulty."""

import http.client
import select
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def closing_server() -> Iterator[str]:
    """A server that reads a request and closes the connection."""

    class HangUpHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serve(HangUpHandler) as endpoint:
        yield endpoint


class ForwardingHandler(BaseHTTPRequestHandler):
    """Forwards requests to `target` and responses back."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    target: str

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.on_request(body)
        if self.refuses():
            self._respond(HTTPStatus.BAD_REQUEST, {}, b'{"__type": "AccessDeniedException"}')
            return
        connection = http.client.HTTPConnection(urlsplit(self.target).netloc, timeout=10)
        # This server has answered "Expect: 100-continue" itself.
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        if not self.drops_response(response.status):
            self._respond(response.status, dict(response.headers), content)

    def _respond(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "content-length", "date", "server", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST  # noqa: N815  (the parent's names)

    def on_request(self, body: bytes) -> None:
        """Called with the body of each request."""

    def refuses(self) -> bool:
        """Whether to answer with an error instead of forwarding the request."""
        return False

    def drops_response(self, status: int) -> bool:
        """Whether to drop the response."""
        del status
        return False

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def response_dropping_proxy(target: str) -> Iterator[tuple[str, list[int]]]:
    """A proxy that drops the response to the first request, and the statuses of dropped responses."""
    dropped: list[int] = []

    class DropFirstResponse(ForwardingHandler):
        def drops_response(self, status: int) -> bool:
            if dropped:
                return False
            dropped.append(status)
            self.close_connection = True
            return True

    DropFirstResponse.target = target
    with serve(DropFirstResponse) as endpoint:
        yield endpoint, dropped


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


@contextmanager
def serve(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Run a server with this handler and yield its URL."""
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
def connect_proxy() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """An HTTP proxy for CONNECT, and the requested addresses with their Proxy-Authorization header."""
    connects: list[tuple[str, str | None]] = []

    class TunnelHandler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            connects.append((self.path, self.headers["Proxy-Authorization"]))
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port))) as target_socket:
                self.send_response(200)
                self.end_headers()
                ends = {self.connection: target_socket, target_socket: self.connection}
                while all(_forward(end, ends[end]) for end in select.select(list(ends), [], [])[0]):
                    pass
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serve(TunnelHandler) as endpoint:
        yield endpoint, connects


def _forward(source: socket.socket, target: socket.socket) -> bool:
    """Forward available data. Returns False at the end of the stream."""
    data = source.recv(65536)
    target.sendall(data)
    return bool(data)


@dataclass(frozen=True)
class Request:
    """A received request. Header names are in lower case."""

    headers: dict[str, str]
    body: bytes
    port: int
    """Port of the client, which identifies the connection."""


@dataclass(frozen=True)
class Reply:
    """A response to send."""

    status: int = 200
    content: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    close_after: bool = False


@contextmanager
def recording_server(*replies: Reply, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[Request]]]:
    """A server that sends these replies, then empty ones, and the requests that it received."""
    requests: list[Request] = []
    pending_replies = deque(replies)

    class RecordingHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.append(Request(headers, body, self.client_address[1]))
            reply = pending_replies.popleft() if pending_replies else Reply()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Transfer-Encoding" not in reply.headers:
                self.send_header("Content-Length", str(len(reply.content)))
            self.end_headers()
            self.wfile.write(reply.content)
            self.wfile.flush()
            if reply.close_after:
                # Without a Connection header, as servers do after an idle timeout.
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serve(RecordingHandler, tls) as endpoint:
        yield endpoint, requests
