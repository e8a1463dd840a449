"""A receiver of webhooks on loopback that records requests."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock

from standardwebhooks.webhooks import Webhook

from tests.adapters.channels import web
from tests.adapters.channels.servers import scripted
from tests.notifications.fake_channels import Json, eventually


@dataclass
class WebhookReceiver:
    """Answers 204 unless other answers are set."""

    port: int = 0
    answers: Iterator[str] = field(default_factory=lambda: iter(()))
    """Answers to the next requests, such as `503 Busy`, with headers on more lines."""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """First line, headers by lower-case name, and body, of each request."""
    lock: Lock = field(default_factory=Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/tokenSECRET"

    def bodies(self, number: int = 1) -> list[Json]:
        """The bodies of the requests, once there are at least `number`."""
        eventually(lambda: len(self.requests) >= number)
        return [json.loads(body) for _, _, body in self.requests]

    def verified(self, secret: str, number: int = 1) -> list[Json]:
        """The bodies of the requests, after their signatures were verified."""
        self.bodies(number)
        return [Webhook(secret).verify(body, headers) for _, headers, body in self.requests]

    def serve_connection(self, connection: socket.socket, _: Event) -> None:
        request = web.request_of(connection)
        with self.lock:
            answer = next(self.answers, "204 No Content")
            self.requests.append(request)
        connection.sendall(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n".encode())


@contextmanager
def run_receiver() -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    with scripted(receiver.serve_connection) as receiver.port:
        yield receiver
