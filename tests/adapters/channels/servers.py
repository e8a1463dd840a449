"""Servers on loopback: one that follows a script, and a mail server that keeps what it gets."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

PATIENCE_S = 30

Script = Callable[[socket.socket, Event], None]
"""What a server does with each connection; the event is set when it is to end."""


@contextmanager
def scripted(script: Script, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server that treats each connection by `script`."""
    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        threads = [Thread(target=_accept, args=(listener, script, context, over))]
        threads[0].start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            threads[0].join(PATIENCE_S)


def _accept(listener: socket.socket, script: Script, context: ssl.SSLContext | None, over: Event) -> None:
    threads = []
    while not over.is_set():
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            threads.append(Thread(target=_treat, args=(connection, script, context, over)))
            threads[-1].start()
    for thread in threads:
        thread.join(PATIENCE_S)


def _treat(plain: socket.socket, script: Script, context: ssl.SSLContext | None, over: Event) -> None:
    with plain, suppress(OSError):
        plain.settimeout(PATIENCE_S)
        connection = plain if context is None else context.wrap_socket(plain, server_side=True)
        with closing(connection):
            script(connection, over)


def hang(_: socket.socket, over: Event) -> None:
    """Take the connection and say nothing."""
    over.wait(PATIENCE_S)


def close(_: socket.socket, __: Event) -> None:
    """Take the connection and end it."""


def drip(connection: socket.socket, over: Event) -> None:
    """Say one character after another and never come to an end."""
    while not over.wait(0.05):
        connection.sendall(b"2")


def say(*lines: str, then: Script = close) -> Script:
    """Answer each line that comes with the next of `lines`, beginning before the first comes."""

    def script(connection: socket.socket, over: Event) -> None:
        with connection.makefile("rwb") as stream:
            for number, line in enumerate(lines):
                if number and not stream.readline():
                    return
                stream.write(line.encode() + b"\r\n")
                stream.flush()
            then(connection, over)

    return script


@dataclass
class Mailbox:
    """What a mail server got, and what it says to whom."""

    answers: dict[str, str] = field(default_factory=dict)
    """By command ("MAIL", "RCPT", "DATA"): what it says instead of "250 OK"."""
    mails: list[Envelope] = field(default_factory=list)
    peers: list[object] = field(default_factory=list)
    """The connection of each mail."""
    encrypted: list[bool] = field(default_factory=list)
    users: list[str] = field(default_factory=list)

    async def handle_MAIL(  # noqa: N802
        self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]
    ) -> str:
        envelope.mail_from = address
        return self.answers.get("MAIL", "250 OK")

    async def handle_RCPT(  # noqa: N802
        self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]
    ) -> str:
        if "RCPT" not in self.answers:
            envelope.rcpt_tos.append(address)
        return self.answers.get("RCPT", "250 OK")

    async def handle_DATA(self, _: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if "DATA" not in self.answers:
            self.mails.append(envelope)
            self.peers.append(session.peer)
            self.encrypted.append(session.ssl is not None)
        return self.answers.get("DATA", "250 OK")

    def authenticate(self, _: SMTP, __: Session, ___: Envelope, ____: str, data: object) -> AuthResult:
        """anna's password is "s3cret:/@"."""
        assert isinstance(data, LoginPassword)
        self.users.append(data.login.decode())
        return AuthResult(success=data == LoginPassword(b"anna", b"s3cret:/@"), handled=False)


@contextmanager
def mail_server(box: Mailbox, context: ssl.SSLContext | None = None, **options: Any) -> Iterator[int]:
    """The port of a mail server that puts what it gets in `box`; with `context` it is encrypted from the start."""
    with _loop() as run:

        async def serve() -> asyncio.Server:
            loop = asyncio.get_running_loop()
            return await loop.create_server(
                lambda: SMTP(box, hostname="localhost", loop=loop, **options), "127.0.0.1", 0, ssl=context
            )

        server = run(serve())
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            run(_ended(server))


async def _ended(server: asyncio.Server) -> None:
    """After the conversations, which end when the clients close their connections."""
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=PATIENCE_S)


@contextmanager
def _loop() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """A way to run coroutines in a thread of their own."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()
