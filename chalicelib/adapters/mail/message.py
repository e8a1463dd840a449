"""What a mail looks like on the wire, and what a mail address is."""

import base64
import hashlib
import re
import time
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime, formataddr

from chalicelib.adapters.templates.text import one_line
from chalicelib.domain.errors import Undeliverable
from chalicelib.domain.notifications.delivery import Mail

DEFAULT_TITLE = "AnyJob"
NO_ADDRESS = "No origin or destination address"
DELIVERY_HEADER = "X-Annals-Delivery"

Clock = Callable[[], int]
"""Milliseconds since 1970."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_LINE = 500
"""Of a header in characters; RFC 5322 allows 998 for the line."""
_LONGEST_ADDRESS, _LONGEST_LOCAL, _LONGEST_DOMAIN = 254, 64, 253
_PIECE = 45
"""Bytes in one encoded word, which may have 75 characters."""
_LOCAL = re.compile(r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*", re.ASCII | re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_IN_A_NAME = ("L", "M", "N")


class _AsWritten(EmailPolicy):
    """Headers go out as they were set: email's own policies would first decode what looks like an encoded word."""

    def header_store_parse(self, name: str, value: str) -> tuple[str, str]:
        if re.search(r"[\r\n](?![\n ])", value):
            raise ValueError(f"header {name} would begin a new line")
        return name, value


_POLICY = _AsWritten(linesep="\r\n", cte_type="7bit", refold_source="none")


def now_ms() -> int:
    """The time on this machine."""
    return time.time_ns() // 1_000_000


def message(mail: Mail, at_ms: int) -> EmailMessage:
    """The mail as text and as HTML; each try of a delivery has the same Message-ID."""
    sender, recipient = envelope(mail)
    built = EmailMessage(_POLICY)
    built["From"] = f"{_title(mail.title)} <{sender}>"
    built["To"] = recipient
    built["Subject"] = _encoded(one_line(mail.subject, _LONGEST_LINE))
    built["Date"] = format_datetime(_EPOCH + timedelta(milliseconds=at_ms))
    built["Message-ID"] = f"<{mark(mail.delivery)}@{sender.partition('@')[2]}>"
    built[DELIVERY_HEADER] = _encoded(one_line(mail.delivery, _LONGEST_LINE))
    # So that nobody's holiday notice answers (RFC 3834).
    built["Auto-Submitted"] = "auto-generated"
    built.set_content(_body(mail.text))
    built.add_alternative(_body(mail.html), subtype="html")
    # No text can hold its own hash, so none can end its part of the message.
    built.set_boundary(mark(f"{mail.delivery}\0{mail.text}\0{mail.html}"))
    return built


def envelope(mail: Mail) -> tuple[str, str]:
    """The sender's and the recipient's address as a mail server wants them, or `Undeliverable`."""
    if not mail.sender.strip() or not mail.recipient.strip():
        raise Undeliverable(NO_ADDRESS)
    try:
        return address(mail.sender), address(mail.recipient)
    except ValueError as refusal:
        raise Undeliverable(str(refusal)) from refusal


def addresses(text: str) -> tuple[str, ...]:
    """Each address of an observer's `to`, such as 'a@x, b@y', once; ValueError for what is no address."""
    written = [part.strip(" \t") for part in text.split(",")]
    by_address: dict[str, str] = {}
    for part in filter(None, written):
        by_address.setdefault(address(part), part)
    return tuple(by_address.values())


def address(text: str) -> str:
    """One address with its domain in ASCII and lower case; ValueError if `text` is none.

    What precedes the last "@" is ASCII without spaces, quotes and comments: hardly a server takes more.
    """
    local, at, domain = text.strip(" ").rpartition("@")
    try:
        name = ".".join(_label(label) for label in domain.split("."))
    except ValueError as refusal:
        raise _no_address(text) from refusal
    if not at or not _LOCAL.fullmatch(local) or len(local) > _LONGEST_LOCAL or len(name) > _LONGEST_DOMAIN:
        raise _no_address(text)
    if len(local) + 1 + len(name) > _LONGEST_ADDRESS:
        raise _no_address(text)
    return f"{local}@{name}"


def mark(text: str) -> str:
    """A name for `text` that is safe in a header and in a file name, the same whenever it is asked for."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _label(label: str) -> str:
    """One part of a domain's name in ASCII.

    As in IDNA 2008 "ß" stays what it is; Python's own codec would write to another domain.
    """
    lower = unicodedata.normalize("NFKC", "".join(character.lower() for character in label))
    if lower.isascii():
        name = lower
    elif all(unicodedata.category(character)[0] in _IN_A_NAME or character == "-" for character in lower):
        name = "xn--" + lower.encode("punycode").decode("ascii")
    else:
        name = ""
    if not _LABEL.fullmatch(name):
        raise ValueError("not a part of a domain's name")
    return name


def _no_address(text: str) -> ValueError:
    return ValueError(f"'{one_line(text, 100)}' is not a mail address such as 'anna@example.org'")


def _title(title: str) -> str:
    """The sender's name, quoted or encoded where it must be."""
    line = one_line(title, _LONGEST_LINE) or DEFAULT_TITLE
    encoded = _encoded(line)
    return encoded if encoded != line else formataddr((line, "a@b")).removesuffix(" <a@b>")


def _encoded(line: str) -> str:
    """`line` as it is if that is ASCII, else as the encoded words of RFC 2047, folded."""
    if line.isascii() and "=?" not in line:
        return line
    return "\r\n ".join(f"=?utf-8?b?{base64.b64encode(piece).decode()}?=" for piece in _pieces(line))


def _pieces(line: str) -> Iterator[bytes]:
    """`line` in UTF-8, cut between characters."""
    piece = b""
    for character in line:
        if len(piece) + len(character.encode()) > _PIECE:
            yield piece
            piece = b""
        piece += character.encode()
    yield piece


def _body(text: str) -> str:
    """`text` without what no mail may hold: NUL, and halves of characters."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
