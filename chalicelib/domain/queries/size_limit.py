"""How large a page may be, and how its size is measured.

A Lambda function returns its response as JSON text inside a JSON document of at most 6 MB. Quotes and backslashes are
escaped there. Runtimes before Python 3.12 also escape each character beyond ASCII, as 6 or 12 bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Final

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""A page ends after the commit or event that exceeds this size, which adds at most 1.5 MB."""
MAX_LAMBDA_RESPONSE_BYTES = 6_291_556


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The size of a page, measured as the client's connection or the Lambda runtime encodes its texts."""

    max_bytes: int
    measure: Callable[[Sequence[str]], int]
    """Returns the encoded size of texts in bytes."""


def utf8_bytes(texts: Sequence[str]) -> int:
    return sum(map(len, texts if all(map(str.isascii, texts)) else map(str.encode, texts)))


def escaped_bytes(texts: Sequence[str]) -> int:
    """Size within the response of a Lambda function. The quotes that the encoder adds count for a separator."""
    return sum(map(len, map(encode_basestring_ascii, texts)))


UTF8_PAGE: Final = SizeLimit(MAX_PAGE_BYTES, utf8_bytes)
LAMBDA_PAGE: Final = SizeLimit(MAX_PAGE_BYTES, escaped_bytes)
