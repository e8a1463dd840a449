"""Builds MIME messages and validates mail addresses."""

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

DEFAULT_TITLE = "Annals"
MISSING_ADDRESS = "No origin or destination address"
DELIVERY_HEADER = "X-Annals-Delivery"

Clock = Callable[[], int]
"""Returns milliseconds since 1970."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_HEADER_CHARS = 500
"""RFC 5322 allows lines of 998 characters."""
_MAX_ADDRESS_CHARS, _MAX_LOCAL_CHARS = 254, 64
_ENCODED_WORD_BYTES = 45
"""Bytes that fit into one encoded word, which may have 75 characters."""
_LOCAL_PART = re.compile(r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*", re.ASCII | re.IGNORECASE)
_DOMAIN_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_IDN_CATEGORIES = ("L", "M", "N")
"""Unicode letters, marks and numbers, which international domain names may contain."""


class _VerbatimHeaderPolicy(EmailPolicy):
    """Writes headers as they were set. The standard policies would decode text that looks like an encoded word."""

    def header_store_parse(self, name: str, value: str) -> tuple[str, str]:
        if re.search(r"[\r\n](?![\n ])", value):
            raise ValueError(f"header {name} contains a line break that would start another header")
        return name, value


_POLICY = _VerbatimHeaderPolicy(linesep="\r\n", cte_type="7bit", refold_source="none")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def build_message(mail: Mail, at_ms: int) -> EmailMessage:
    """Build a message with a text and an HTML part. All attempts of a delivery have the same Message-ID."""
    sender, recipient = envelope(mail)
    message = EmailMessage(_POLICY)
    message["From"] = f"{_format_display_name(mail.title)} <{sender}>"
    message["To"] = recipient
    message["Subject"] = _encode_header(one_line(mail.subject, _MAX_HEADER_CHARS))
    message["Date"] = format_datetime(_EPOCH + timedelta(milliseconds=at_ms))
    message["Message-ID"] = f"<{stable_id(mail.delivery)}@{sender.partition('@')[2]}>"
    message[DELIVERY_HEADER] = _encode_header(one_line(mail.delivery, _MAX_HEADER_CHARS))
    # Prevents automatic replies such as holiday notices (RFC 3834).
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(_sanitize_body(mail.text))
    message.add_alternative(_sanitize_body(mail.html), subtype="html")
    # A text cannot contain its own hash, so no text can forge the boundary of its part.
    message.set_boundary(stable_id(f"{mail.delivery}\0{mail.text}\0{mail.html}"))
    return message


def envelope(mail: Mail) -> tuple[str, str]:
    """Addresses of the sender and the recipient for SMTP. Raises `Undeliverable` if one is missing or invalid."""
    if not mail.sender.strip() or not mail.recipient.strip():
        raise Undeliverable(MISSING_ADDRESS)
    try:
        return normalize_address(mail.sender), normalize_address(mail.recipient)
    except ValueError as error:
        raise Undeliverable(str(error)) from error


def parse_addresses(text: str) -> tuple[str, ...]:
    """Distinct addresses of a list such as 'a@x, b@y', as they were written. Raises `ValueError`."""
    written = [part.strip(" \t") for part in text.split(",")]
    by_address: dict[str, str] = {}
    for part in filter(None, written):
        by_address.setdefault(normalize_address(part), part)
    return tuple(by_address.values())


def normalize_address(text: str) -> str:
    """The address with its domain in ASCII and lower case. Raises `ValueError` if it is not valid.

    The local part must be ASCII without spaces, quotes and comments, because few servers accept more.
    """
    local, at, domain = text.strip(" ").rpartition("@")
    try:
        name = ".".join(_encode_label(label) for label in domain.split("."))
    except ValueError as error:
        raise _invalid_address(text) from error
    address = f"{local}@{name}"
    if not at or not _LOCAL_PART.fullmatch(local) or len(local) > _MAX_LOCAL_CHARS or len(address) > _MAX_ADDRESS_CHARS:
        raise _invalid_address(text)
    return address


def stable_id(text: str) -> str:
    """A hash of `text` that is safe in headers and file names."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _encode_label(label: str) -> str:
    """One label of a domain name in ASCII.

    As in IDNA 2008, "ß" stays "ß". Python's own codec follows IDNA 2003 and would address another domain.
    """
    lower = unicodedata.normalize("NFKC", "".join(char.lower() for char in label))
    if lower.isascii():
        name = lower
    elif all(unicodedata.category(char)[0] in _IDN_CATEGORIES or char == "-" for char in lower):
        name = "xn--" + lower.encode("punycode").decode("ascii")
    else:
        name = ""
    if not _DOMAIN_LABEL.fullmatch(name):
        raise ValueError("not a valid label of a domain name")
    return name


def _invalid_address(text: str) -> ValueError:
    return ValueError(f"'{one_line(text, 100)}' is not a mail address such as 'anna@example.org'")


def _format_display_name(title: str) -> str:
    """The sender's name, quoted or encoded if necessary."""
    line = one_line(title, _MAX_HEADER_CHARS) or DEFAULT_TITLE
    encoded = _encode_header(line)
    return encoded if encoded != line else formataddr((line, "a@b")).removesuffix(" <a@b>")


def _encode_header(line: str) -> str:
    """Return ASCII text unchanged and encode other text as folded encoded words (RFC 2047)."""
    if line.isascii() and "=?" not in line:
        return line
    return "\r\n ".join(f"=?utf-8?b?{base64.b64encode(chunk).decode()}?=" for chunk in _utf8_chunks(line))


def _utf8_chunks(line: str) -> Iterator[bytes]:
    """`line` in UTF-8, split between characters into chunks that fit into an encoded word."""
    chunk = b""
    for char in line:
        if len(chunk) + len(char.encode()) > _ENCODED_WORD_BYTES:
            yield chunk
            chunk = b""
        chunk += char.encode()
    yield chunk


def _sanitize_body(text: str) -> str:
    """Replace NUL and lone surrogates, which a mail must not contain."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
