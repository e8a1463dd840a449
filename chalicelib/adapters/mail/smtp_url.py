"""Parses the URL of an SMTP server."""

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

StartTls = Literal["offered", "required", "no"]

_PORTS = {"smtp": 25, "smtps": 465}
_INVALID_URL = (
    "the URL of the mail server must be smtp://user:password@host:port or smtps://…, "
    "with ?starttls=required or ?starttls=no"
)


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """A mail server. Without `user` there is no login."""

    host: str
    port: int
    is_tls: bool = False
    """Encrypted from the first byte."""
    starttls: StartTls = "offered"
    """Whether to use STARTTLS: if the server offers it, always, or never."""
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """Name in messages to operators."""
        return f"mail server {self.host}:{self.port}"


def parse(url: str) -> SmtpServer:
    """Raises `ValueError` if the URL is not valid. The message does not contain the password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(_INVALID_URL) from None
    is_complete = parts.hostname and parts.path in ("", "/") and not parts.fragment
    if parts.scheme not in _PORTS or not is_complete or port == 0:
        raise ValueError(_INVALID_URL)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not (user + password).isascii() or (password and not user):
        raise ValueError("the user and the password of the mail server must be ASCII, and a password needs a user")
    return SmtpServer(
        host=parts.hostname or "",
        port=port or _PORTS[parts.scheme],
        is_tls=parts.scheme == "smtps",
        starttls=_parse_starttls(parts),
        user=user,
        password=password,
    )


def _parse_starttls(parts: SplitResult) -> StartTls:
    match parts.scheme, parse_qsl(parts.query, keep_blank_values=True):
        case _, []:
            return "offered"
        case "smtp", [("starttls", "required" | "no" as mode)]:
            return mode
        case _:
            raise ValueError("the URL of a mail server may only have ?starttls=required or ?starttls=no, with smtp://")
