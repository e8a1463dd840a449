"""Servers on loopback: one that follows a script, and a mail server that records mail."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

HANG_TIMEOUT_S = 30

Script = Callable[[socket.socket, Event], None]
"""Handles a connection. The event is set when the server should end."""


@contextmanager
def scripted(script: Script, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Run a server that handles each connection with `script`, and yield its port."""
    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        threads = [Thread(target=_accept, args=(listener, script, context, over))]
        threads[0].start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            threads[0].join(HANG_TIMEOUT_S)


def _accept(listener: socket.socket, script: Script, context: ssl.SSLContext | None, over: Event) -> None:
    threads = []
    while not over.is_set():
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            threads.append(Thread(target=_handle, args=(connection, script, context, over)))
            threads[-1].start()
    for thread in threads:
        thread.join(HANG_TIMEOUT_S)


def _handle(plain: socket.socket, script: Script, context: ssl.SSLContext | None, over: Event) -> None:
    with plain, suppress(OSError):
        plain.settimeout(HANG_TIMEOUT_S)
        connection = plain if context is None else context.wrap_socket(plain, server_side=True)
        with closing(connection):
            script(connection, over)


def hang(_: socket.socket, over: Event) -> None:
    """Accept the connection and send nothing."""
    over.wait(HANG_TIMEOUT_S)


def close(_: socket.socket, __: Event) -> None:
    """Accept the connection and close it."""


def drip(connection: socket.socket, over: Event) -> None:
    """Send one character after another without end."""
    while not over.wait(0.05):
        connection.sendall(b"2")


def say(*lines: str, then: Script = close) -> Script:
    """Send the first of `lines`, then answer each received line with the next one."""

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
    """The mails that a server received, and its answers."""

    answers: dict[str, str] = field(default_factory=dict)
    """By command ("MAIL", "RCPT", "DATA"): the answer instead of "250 OK"."""
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
    """Run a mail server that stores mails in `box`, and yield its port. With `context` it speaks TLS from the start."""
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
            run(_shut_down(server))


async def _shut_down(server: asyncio.Server) -> None:
    """Wait for open connections, which end when the clients close them."""
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=HANG_TIMEOUT_S)


@contextmanager
def _loop() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """A function that runs coroutines in a separate thread."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(HANG_TIMEOUT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(HANG_TIMEOUT_S)
        loop.close()
