"""A fake mail server and a fake Slack that record what they receive."""

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
from tests.adapters.channels.servers import HANG_TIMEOUT_S, Mailbox, mail_server, scripted

Json = dict[str, Any]
T = TypeVar("T")

WAIT_TIMEOUT_S = 90.0
"""Generous, because tests share a busy machine."""
HANG = "hang"


@dataclass
class FakeSlack:
    """Records posts by path and answers 200 unless other answers are set."""

    answers: dict[str, Iterator[str]] = field(default_factory=dict)
    """By path: answers to the next posts, such as `503 Busy` with headers on more lines, or `hang`."""
    posts: dict[str, list[Json]] = field(default_factory=dict)
    rejected: Counter[str] = field(default_factory=Counter)
    port: int = 0
    lock: Lock = field(default_factory=Lock)

    def url(self, name: str) -> str:
        """The webhook URL of a channel."""
        return f"https://localhost:{self.port}/{name}"

    def attachments(self, name: str) -> list[Json]:
        """The attachment of each message to a channel."""
        with self.lock:
            return [post["attachments"][0] for post in self.posts.get(f"/{name}", [])]

    def respond_with(self, name: str, answers: Iterator[str]) -> None:
        """Set the answers to the next posts to a channel."""
        self.answers[f"/{name}"] = answers

    def serve_connection(self, connection: socket.socket, is_over: Event) -> None:
        first, headers, body = web.request_of(connection)
        if not first or len(body) < int(headers["content-length"]):
            return  # The sending process was killed.
        path = first.split()[1]
        with self.lock:
            answer = next(self.answers.get(path, iter(())), "200 OK")
            if answer == "200 OK":
                self.posts.setdefault(path, []).append(json.loads(body))
            else:
                self.rejected[path] += 1
        if answer == HANG:
            is_over.wait(HANG_TIMEOUT_S)
        else:
            connection.sendall(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n".encode())


@dataclass
class FakeChannels:
    """All external channels of observers."""

    mailbox: Mailbox
    slack: FakeSlack
    smtp_port: int

    def mails(self, address: str) -> list[EmailMessage]:
        """Mails to an address."""
        return [parse_mail(mail.content) for mail in list(self.mailbox.mails) if address in mail.rcpt_tos]

    def subjects(self, address: str) -> list[str]:
        """Subjects of the mails to an address."""
        return [mail["Subject"] for mail in self.mails(address)]


@contextmanager
def run_fake_channels(authority: trustme.CA, mailbox: Mailbox | None = None) -> Iterator[FakeChannels]:
    context: ssl.SSLContext = context_for(authority, "localhost")
    slack, mailbox = FakeSlack(), Mailbox() if mailbox is None else mailbox
    with mail_server(mailbox) as smtp_port, scripted(slack.serve_connection, context) as slack.port:
        yield FakeChannels(mailbox, slack, smtp_port)


def parse_mail(content: str | bytes | None) -> EmailMessage:
    assert isinstance(content, bytes)
    mail = message_from_bytes(content, policy=policy.default)
    assert isinstance(mail, EmailMessage)
    return mail


def mail_text(mail: EmailMessage, kind: str = "plain") -> str:
    """The plain text or the HTML of a mail."""
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def eventually(poll: Callable[[], T], is_done: Callable[[T], object] = bool, timeout_s: float = WAIT_TIMEOUT_S) -> T:
    """Call `poll` until `is_done` accepts its result, and return the result."""
    deadline, pause = monotonic() + timeout_s, Event()
    while not is_done(value := poll()):
        assert monotonic() < deadline, f"after {timeout_s:g} s it is still {value!r}"
        pause.wait(0.05)
    return value
