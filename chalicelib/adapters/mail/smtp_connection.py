"""A connection to a mail server: `smtplib` with a deadline for the whole conversation."""

import smtplib
import socket
from contextlib import suppress
from typing import Any

from chalicelib.adapters.webhooks.io_deadline import Deadline, open_reader

MAX_REPLY_BYTES = 1_000_000
"""Limit for all replies of the server about one mail."""


class SmtpConnection(smtplib.SMTP):
    """A connection that times out at its deadline, even if the server sends byte by byte."""

    def __init__(self, deadline: Deadline, host: str, port: int, **more: Any) -> None:
        self._deadline = deadline
        # Without a name, smtplib would look up ours in DNS, without a timeout.
        super().__init__(host, port, local_hostname=socket.gethostname(), **more)
        if "." not in self.local_hostname:
            self.local_hostname = self._address_literal()

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = open_reader(self.sock, self._deadline, MAX_REPLY_BYTES)
        return super().getreply()

    def is_alive(self, deadline: Deadline) -> bool:
        """Whether the server still answers. `deadline` then applies to the next mail."""
        self._deadline = deadline
        self.file = None
        with suppress(smtplib.SMTPException, OSError):
            return self.noop()[0] == 250
        return False

    def quit_and_close(self) -> None:
        """Send QUIT and close the connection without waiting for the reply."""
        with suppress(smtplib.SMTPException, OSError):
            self.putcmd("quit")
        self.close()

    def _address_literal(self) -> str:
        """The name for EHLO of a machine without a fully qualified name."""
        address = self.sock.getsockname()[0] if self.sock is not None else "127.0.0.1"
        return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


class TlsSmtpConnection(SmtpConnection, smtplib.SMTP_SSL):
    """A connection that is encrypted from the first byte."""
