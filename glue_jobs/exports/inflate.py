"""Bodies of commits that are deflated: a few bytes can inflate to very many, and those are none of ours."""

import zlib

MOST_BYTES = 16 * 1024 * 1024
"""Far more than a commit has."""


def inflated(deflated: bytes) -> bytes:
    """The text; raises `zlib.error` if it is broken, cut off or too long."""
    inflate = zlib.decompressobj()
    text = inflate.decompress(deflated, MOST_BYTES)
    if not inflate.eof:
        raise zlib.error(f"it is cut off, or has more than {MOST_BYTES} bytes")
    return text
