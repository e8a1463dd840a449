"""A proxy that stays where it is and does to each request what the test has planned for it."""

import threading
from collections import deque
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

import httpx

from tests.serving import PATIENCE_S


class Misdeed(Enum):
    """What can happen to a request, apart from being answered."""

    LOSE_ANSWER = auto()
    """It arrives and is done, but the connection ends without an answer."""
    CUT_ANSWER = auto()
    """The same, amid the answer."""
    LOSE_REQUEST = auto()
    """It never arrives."""
    NOT_NOW = auto()
    """503, with `Retry-After`."""
    BABBLE = auto()
    """200, with a page that is not Annals'."""


class Proxy:
    """Forwards requests, but for those that meet a misdeed."""

    def __init__(self, upstream: str) -> None:
        self.planned: deque[Misdeed | None] = deque()
        """What happens to the next requests; None: nothing bad. Later ones are forwarded."""
        self.seen: list[tuple[str, str]] = []
        """Method and path of each request."""
        self._http = httpx.Client(base_url=upstream, timeout=PATIENCE_S * 3, trust_env=False)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._http.close()

    def forwarded(self, handler: BaseHTTPRequestHandler) -> httpx.Response:
        """The server's answer."""
        content = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in handler.headers.items() if name.lower() != "host"}
        return self._http.request(handler.command, handler.path, content=content, headers=headers)

    def misdeed(self, handler: BaseHTTPRequestHandler) -> Misdeed | None:
        """What is planned for this request."""
        self.seen.append((handler.command, handler.path.partition("?")[0]))
        return self.planned.popleft() if self.planned else None


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One connection for each request: what is lost is lost alone."""

        def do_GET(self) -> None:
            misdeed = proxy.misdeed(self)
            if misdeed is Misdeed.LOSE_REQUEST:
                return
            answer = proxy.forwarded(self)
            match misdeed:
                case Misdeed.LOSE_ANSWER:
                    return
                case Misdeed.CUT_ANSWER:
                    self._say(answer.status_code, {}, answer.content, len(answer.content) // 2)
                case Misdeed.NOT_NOW:
                    self._say(503, {"Retry-After": "0"}, b"busy")
                case Misdeed.BABBLE:
                    self._say(200, {"Content-Type": "text/html"}, b"<h1>Welcome</h1>")
                case _:
                    kept = ("content-type", "idempotent-replayed", "retry-after")
                    headers = {name: answer.headers[name] for name in kept if name in answer.headers}
                    self._say(answer.status_code, headers, answer.content)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815  (http.server wants these names)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nobody reads it."""

        def _say(self, status: int, headers: dict[str, str], content: bytes, sent: int | None = None) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[:sent])

    return Handler
