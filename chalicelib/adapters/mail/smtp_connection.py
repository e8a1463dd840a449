"""One connection to a mail server: the standard library's, with an end to all waiting."""

import smtplib
import socket
from contextlib import suppress
from typing import Any

from chalicelib.adapters.slack.io_deadline import Deadline, reader

MOST_BYTES = 1_000_000
"""As much as a server may say about one mail."""


class Connection(smtplib.SMTP):
    """A conversation that ends at its deadline, also if the server sends byte by byte."""

    def __init__(self, deadline: Deadline, host: str, port: int, **more: Any) -> None:
        self._deadline = deadline
        # A name is given, as the standard library would ask DNS for ours, without a limit of time.
        super().__init__(host, port, local_hostname=socket.gethostname(), **more)
        if "." not in self.local_hostname:
            self.local_hostname = self._own_address()

    def getreply(self) -> tuple[int, bytes]:
        """The server's next answer."""
        if self.file is None and self.sock is not None:
            self.file = reader(self.sock, self._deadline, MOST_BYTES)
        return super().getreply()

    def is_alive(self, deadline: Deadline) -> bool:
        """Tell whether it is good for another mail, until `deadline`."""
        self._deadline = deadline
        self.file = None
        with suppress(smtplib.SMTPException, OSError):
            return self.noop()[0] == 250
        return False

    def leave(self) -> None:
        """Close it and say so, but wait for no answer."""
        with suppress(smtplib.SMTPException, OSError):
            self.putcmd("quit")
        self.close()

    def _own_address(self) -> str:
        """How a machine calls itself that has no full name."""
        address = self.sock.getsockname()[0] if self.sock is not None else "127.0.0.1"
        return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


class EncryptedConnection(Connection, smtplib.SMTP_SSL):
    """The same, encrypted from the first byte."""
