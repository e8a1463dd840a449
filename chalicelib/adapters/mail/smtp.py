"""Mail by way of an SMTP server."""

import smtplib
import ssl
import time
from functools import cached_property
from threading import Lock
from typing import NoReturn

from chalicelib.adapters.mail import smtp_url
from chalicelib.adapters.mail.message import Clock, envelope, message, now_ms
from chalicelib.adapters.mail.smtp_connection import Connection, EncryptedConnection
from chalicelib.adapters.slack.io_deadline import Deadline
from chalicelib.adapters.templates.text import said
from chalicelib.domain.errors import NotDelivered, Undeliverable
from chalicelib.domain.notifications.delivery import Mail

TIMEOUT_S = 10
SEND_S = 60
"""The longest that a mail may take, however slowly the server answers."""
IDLE_S = 5
"""How long a connection is good for the next mail."""
IDLE_CONNECTIONS = 4

_ABOUT_US = {530, 534, 535, 538}
"""Codes that speak of our login and not of the mail."""


class SmtpMailer:
    """Sends each mail to the server of `url`; threads may share it."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S, send_s: float = SEND_S, clock: Clock = now_ms) -> None:
        self._server = smtp_url.parse(url)
        self._timeout_s = timeout_s
        self._send_s = send_s
        self._clock = clock
        self._lock = Lock()
        self._idle: list[tuple[float, Connection]] = []

    def send(self, mail: Mail) -> None:
        """Hand `mail` to the server, or raise `NotDelivered`; `Undeliverable` if it refuses this very mail."""
        sender, recipient = envelope(mail)
        content = message(mail, self._clock()).as_bytes()
        try:
            connection = self._connection(Deadline(self._send_s, self._timeout_s))
            self._hand_over(connection, sender, recipient, content)
        except smtplib.SMTPException as failure:
            self._fail(failure)
        except ssl.SSLCertVerificationError as failure:
            reason = f"{self._server.name} has no valid certificate: {said(failure.verify_message)}"
            raise NotDelivered(reason) from failure
        except TimeoutError as failure:
            raise self._too_late() from failure
        except (OSError, UnicodeError) as failure:
            raise NotDelivered(f"{self._server.name} cannot be reached: {said(str(failure))}") from failure

    def close(self) -> None:
        """Take leave of the server where no mail is under way."""
        while (kept := self._kept()) is not None:
            kept[1].leave()

    def _hand_over(self, connection: Connection, sender: str, recipient: str, content: bytes) -> None:
        try:
            connection.sendmail(sender, [recipient], content)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append((time.monotonic(), connection))
                return
        connection.leave()

    def _connection(self, deadline: Deadline) -> Connection:
        """One that was used just now and is still good, else a new one."""
        while (kept := self._kept()) is not None:
            used_at, connection = kept
            if time.monotonic() - used_at < IDLE_S and connection.is_alive(deadline):
                return connection
            connection.leave()
        connection = self._opened(deadline)
        try:
            self._greet(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _kept(self) -> tuple[float, Connection] | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _opened(self, deadline: Deadline) -> Connection:
        host, port = self._server.host, self._server.port
        if self._server.is_tls:
            return EncryptedConnection(deadline, host, port, timeout=self._timeout_s, context=self._context)
        return Connection(deadline, host, port, timeout=self._timeout_s)

    def _greet(self, connection: Connection) -> None:
        """Say who we are: encrypted if the server can, and no password in the clear unless `starttls=no` says so."""
        server = self._server
        connection.ehlo_or_helo_if_needed()
        is_encrypted = server.is_tls
        if not is_encrypted and server.starttls != "no" and connection.has_extn("starttls"):
            connection.starttls(context=self._context)
            connection.ehlo_or_helo_if_needed()
            is_encrypted = True
        if not is_encrypted and (server.starttls == "required" or (server.user and server.starttls != "no")):
            raise NotDelivered(f"{server.name} offers no encryption; ?starttls=no in its URL does without")
        if server.user:
            connection.login(server.user, server.password)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def _fail(self, failure: smtplib.SMTPException) -> NoReturn:
        """Raise what `failure` means; what the server says to a login may repeat the password, so that is left out."""
        name = self._server.name
        match failure:
            case smtplib.SMTPAuthenticationError(smtp_code=code):
                raise NotDelivered(f"{name} refuses the user or the password ({code})") from None
            case smtplib.SMTPRecipientsRefused():
                code, text = next(iter(failure.recipients.values()))
                raise _refusal(code, f"{name} refuses the recipient: {code} {said(text)}") from failure
            case smtplib.SMTPSenderRefused(smtp_code=code, smtp_error=text):
                raise _refusal(code, f"{name} refuses the sender: {code} {said(text)}") from failure
            case smtplib.SMTPDataError(smtp_code=code, smtp_error=text):
                raise _refusal(code, f"{name} refuses the mail: {code} {said(text)}") from failure
            case smtplib.SMTPResponseException(smtp_code=code, smtp_error=text):
                raise NotDelivered(f"{name} is not ready: {code} {said(text)}") from failure
            case _ if isinstance(failure.__context__, TimeoutError):
                raise self._too_late() from failure
            case _:
                raise NotDelivered(f"{name} did not take the mail: {said(str(failure))}") from failure

    def _too_late(self) -> NotDelivered:
        return NotDelivered(f"{self._server.name} did not answer in time")


def _refusal(code: int, reason: str) -> NotDelivered:
    """For good if the code is of the 500s and about the mail."""
    return Undeliverable(reason) if 500 <= code < 600 and code not in _ABOUT_US else NotDelivered(reason)
