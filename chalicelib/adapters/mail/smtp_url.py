"""Where the mail server is and how to talk to it, written as a URL."""

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

StartTls = Literal["offered", "required", "no"]

_PORTS = {"smtp": 25, "smtps": 465}
_FORM = "smtp://user:password@host:port or smtps://…, with ?starttls=required or ?starttls=no"


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """A mail server; without `user` it is not told who we are."""

    host: str
    port: int
    is_tls: bool = False
    """Encrypted from the first byte."""
    starttls: StartTls = "offered"
    """Whether to ask for encryption: if it is offered, always, never."""
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """How an operator knows it."""
        return f"mail server {self.host}:{self.port}"


def parse(url: str) -> SmtpServer:
    """The server of `smtp://user:password@host:port`; ValueError, which tells no password, if that is not its form."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"the mail server's URL is {_FORM}") from None
    is_whole = parts.hostname and parts.path in ("", "/") and not parts.fragment
    if parts.scheme not in _PORTS or not is_whole or port == 0:
        raise ValueError(f"the mail server's URL is {_FORM}")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not (user + password).isascii() or (password and not user):
        raise ValueError("a mail server's user and password are ASCII, and there is no password without a user")
    return SmtpServer(
        host=parts.hostname or "",
        port=port or _PORTS[parts.scheme],
        is_tls=parts.scheme == "smtps",
        starttls=_starttls(parts),
        user=user,
        password=password,
    )


def _starttls(parts: SplitResult) -> StartTls:
    match parts.scheme, parse_qsl(parts.query, keep_blank_values=True):
        case _, []:
            return "offered"
        case "smtp", [("starttls", "required" | "no" as wish)]:
            return wish
        case _:
            raise ValueError("of a mail server's URL only ?starttls=required or ?starttls=no is known, for smtp://")
