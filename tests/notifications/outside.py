"""The world outside: a mail server, and a Slack that does as it is told."""

import json
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from threading import Event, Lock
from time import monotonic
from typing import Any, TypeVar

import trustme

from tests.adapters.channels import web
from tests.adapters.channels.conftest import context_for
from tests.adapters.channels.servers import PATIENCE_S, Mailbox, mail_server, scripted

Json = dict[str, Any]
Found = TypeVar("Found")

LONGEST_S = 90.0
"""How long a test waits for what a busy machine does in its own time."""
HANG = "hang"


@dataclass
class Slack:
    """Keeps what it gets, by path; answers 200 unless it is told otherwise."""

    answers: dict[str, Iterator[str]] = field(default_factory=dict)
    """By path: how it answers the next posts, as `503 Busy`, more headers on more lines; or `hang`."""
    posts: dict[str, list[Json]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    port: int = 0
    lock: Lock = field(default_factory=Lock)

    def url(self, name: str) -> str:
        """The webhook of a channel."""
        return f"https://localhost:{self.port}/{name}"

    def of(self, name: str) -> list[Json]:
        """What a channel was told: the one attachment of each message."""
        with self.lock:
            return [post["attachments"][0] for post in self.posts.get(f"/{name}", [])]

    def answer(self, name: str, answers: Iterator[str]) -> None:
        """Answer the next posts to a channel like this."""
        self.answers[f"/{name}"] = answers

    def script(self, connection: socket.socket, over: Event) -> None:
        """What it does with a connection."""
        first, headers, body = web.request_of(connection)
        if not first or len(body) < int(headers["content-length"]):
            return  # who sent it died
        path = first.split()[1]
        with self.lock:
            answer = next(self.answers.get(path, iter(())), "200 OK")
            if answer == "200 OK":
                self.posts.setdefault(path, []).append(json.loads(body))
            else:
                self.refused[path] += 1
        if answer == HANG:
            over.wait(PATIENCE_S)
        else:
            connection.sendall(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n".encode())


@dataclass
class Outside:
    """All that observers reach."""

    box: Mailbox
    slack: Slack
    smtp_port: int

    def mails(self, address: str) -> list[EmailMessage]:
        """What an address got."""
        return [letter(mail.content) for mail in list(self.box.mails) if address in mail.rcpt_tos]

    def subjects(self, address: str) -> list[str]:
        """The subjects of what an address got."""
        return [mail["Subject"] for mail in self.mails(address)]


@contextmanager
def outside(authority: trustme.CA, box: Mailbox | None = None) -> Iterator[Outside]:
    """The world outside for as long as the block runs."""
    context: ssl.SSLContext = context_for(authority, "localhost")
    slack, found = Slack(), Mailbox() if box is None else box
    with mail_server(found) as smtp_port, scripted(slack.script, context) as slack.port:
        yield Outside(found, slack, smtp_port)


def letter(content: str | bytes | None) -> EmailMessage:
    """A mail as its reader sees it."""
    assert isinstance(content, bytes)
    found = message_from_bytes(content, policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def text_of(mail: EmailMessage, kind: str = "plain") -> str:
    """What a mail says, as text or as HTML."""
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def eventually(
    found: Callable[[], Found], holds: Callable[[Found], object] = bool, longest_s: float = LONGEST_S
) -> Found:
    """What is found, once it is as it should be."""
    deadline, pause = monotonic() + longest_s, Event()
    while not holds(value := found()):
        assert monotonic() < deadline, f"after {longest_s:g} s it is still {value!r}"
        pause.wait(0.05)
    return value
