"""Endpoints that a test can have instead of AWS: real servers on loopback, with failings."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
