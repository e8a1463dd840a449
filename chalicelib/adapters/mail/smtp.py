"""Sends mail with an SMTP server.

Threads: any number may call `send`. Locks: `_lock` protects `_idle` and is never held during I/O.
"""

import smtplib
import ssl
import time
from functools import cached_property
from threading import Lock
from typing import NoReturn

from chalicelib.adapters.mail import smtp_url
from chalicelib.adapters.mail.message import Clock, build_message, envelope, now_ms
from chalicelib.adapters.mail.smtp_connection import SmtpConnection, TlsSmtpConnection
from chalicelib.adapters.mail.smtp_replies import is_rate_limit
from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.adapters.webhooks.io_deadline import Deadline
from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable
from chalicelib.domain.notifications.delivery import Mail

TIMEOUT_S = 10
"""For each reply of the server."""
SEND_TIMEOUT_S = 60
"""For a whole mail, however slowly the server answers."""
MAX_IDLE_S = 5
"""How long an idle connection is reused."""
MAX_IDLE_CONNECTIONS = 4

_AUTHENTICATION_CODES = {530, 534, 535, 538}
"""SMTP codes for authentication failures: retry, do not reject the mail."""


class SmtpMailer:
    """Sends mail to the server of `url`, reusing idle connections."""

    def __init__(
        self, url: str, timeout_s: float = TIMEOUT_S, send_timeout_s: float = SEND_TIMEOUT_S, clock: Clock = now_ms
    ) -> None:
        self._server = smtp_url.parse(url)
        self._timeout_s = timeout_s
        self._send_timeout_s = send_timeout_s
        self._clock = clock
        self._lock = Lock()
        self._idle: list[tuple[float, SmtpConnection]] = []
        """Idle connections and when each was last used."""

    def send(self, mail: Mail) -> None:
        """Raises `NotDelivered`, `RateLimited`, or `Undeliverable` if the server rejects the mail itself."""
        sender, recipient = envelope(mail)
        content = build_message(mail, self._clock()).as_bytes()
        try:
            connection = self._acquire(Deadline(self._send_timeout_s, self._timeout_s))
            self._transmit(connection, sender, recipient, content)
        except smtplib.SMTPException as error:
            self._raise_delivery_error(error)
        except ssl.SSLCertVerificationError as error:
            reason = f"{self._server.name} has no valid certificate: {shorten_reason(error.verify_message)}"
            raise NotDelivered(reason) from error
        except TimeoutError as error:
            raise self._timeout_error() from error
        except (OSError, UnicodeError) as error:
            raise NotDelivered(f"{self._server.name} cannot be reached: {shorten_reason(str(error))}") from error

    def close(self) -> None:
        """Close all idle connections."""
        while (idle := self._pop_idle()) is not None:
            idle[1].quit_and_close()

    def _transmit(self, connection: SmtpConnection, sender: str, recipient: str, content: bytes) -> None:
        try:
            connection.sendmail(sender, [recipient], content)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if len(self._idle) < MAX_IDLE_CONNECTIONS:
                self._idle.append((time.monotonic(), connection))
                return
        connection.quit_and_close()

    def _acquire(self, deadline: Deadline) -> SmtpConnection:
        """An idle connection that still works, or a new one."""
        while (idle := self._pop_idle()) is not None:
            used_at, connection = idle
            if time.monotonic() - used_at < MAX_IDLE_S and connection.is_alive(deadline):
                return connection
            connection.quit_and_close()
        connection = self._open(deadline)
        try:
            self._start_session(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _pop_idle(self) -> tuple[float, SmtpConnection] | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _open(self, deadline: Deadline) -> SmtpConnection:
        host, port = self._server.host, self._server.port
        if self._server.is_tls:
            return TlsSmtpConnection(deadline, host, port, timeout=self._timeout_s, context=self._context)
        return SmtpConnection(deadline, host, port, timeout=self._timeout_s)

    def _start_session(self, connection: SmtpConnection) -> None:
        """Encrypt if the server can, then log in. A password is sent unencrypted only with `starttls=no`."""
        server = self._server
        connection.ehlo_or_helo_if_needed()
        is_encrypted = server.is_tls
        if not is_encrypted and server.starttls != "no" and connection.has_extn("starttls"):
            connection.starttls(context=self._context)
            connection.ehlo_or_helo_if_needed()
            is_encrypted = True
        if not is_encrypted and (server.starttls == "required" or (server.user and server.starttls != "no")):
            raise NotDelivered(f"{server.name} offers no encryption; add ?starttls=no to its URL to send without it")
        if server.user:
            connection.login(server.user, server.password)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def _raise_delivery_error(self, error: smtplib.SMTPException) -> NoReturn:
        """The server's reply to a login is not quoted, because it may repeat the password."""
        name = self._server.name
        match error:
            case smtplib.SMTPAuthenticationError(smtp_code=code):
                raise NotDelivered(f"{name} rejected the user or the password ({code})") from None
            case smtplib.SMTPRecipientsRefused():
                code, text = next(iter(error.recipients.values()))
                raise _rejection(f"{name} rejected the recipient", code, text) from error
            case smtplib.SMTPSenderRefused(smtp_code=code, smtp_error=text):
                raise _rejection(f"{name} rejected the sender", code, text) from error
            case smtplib.SMTPDataError(smtp_code=code, smtp_error=text):
                raise _rejection(f"{name} rejected the mail", code, text) from error
            case smtplib.SMTPResponseException(smtp_code=code, smtp_error=text):
                raise _temporary_error(f"{name} is not ready", code, text) from error
            case _ if isinstance(error.__context__, TimeoutError):
                raise self._timeout_error() from error
            case _:
                raise NotDelivered(f"{name} did not accept the mail: {shorten_reason(str(error))}") from error

    def _timeout_error(self) -> NotDelivered:
        return NotDelivered(f"{self._server.name} did not answer in time")


def _rejection(what: str, code: int, text: str | bytes) -> NotDelivered:
    """A code of the 500s is permanent, unless it is about our login or a rate limit."""
    error = _temporary_error(what, code, text)
    is_permanent = 500 <= code < 600 and code not in _AUTHENTICATION_CODES and not isinstance(error, RateLimited)
    return Undeliverable(str(error)) if is_permanent else error


def _temporary_error(what: str, code: int, text: str | bytes) -> NotDelivered:
    reply = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    error = RateLimited if is_rate_limit(code, reply) else NotDelivered
    return error(f"{what}: {code} {shorten_reason(reply)}")
