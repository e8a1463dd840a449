"""The time in an idempotency key. A key that is later than all keys of earlier commits needs no lookup.

UUIDs of version 7 (RFC 9562) begin with the time at which they were made. If the key of each commit up to a head has an
earlier time than a key, then none of these commits has it. That compares keys with keys, so it is true whichever clocks
are right. Clocks only decide how often a lookup can be left out.
"""

import re

from chalicelib.domain.log.append import RECEIPT_STORED_S
from chalicelib.domain.log.commit import Commit

MAX_KEY_LEAD_MS = 10 * 60 * 1000
"""A key whose time is further in the future says nothing about earlier commits."""

_UUID_7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)


def key_time_ms(key: str) -> int | None:
    """The time in milliseconds since 1970 at which the key was made. None if it is not a UUID of version 7."""
    match = _UUID_7.fullmatch(key)
    return int(match[1] + match[2], 16) if match else None


def is_later(key: str, latest_ms: int, now_ms: int) -> bool:
    """Whether no commit with keys up to `latest_ms` has a valid use of this key. `now_ms` is when it is looked up."""
    # A valid use is at most RECEIPT_TTL_S old. With this maximum, the time of the key is less than RECEIPT_STORED_S
    # after that of its commit, so `clipped_key_ms` has not changed it.
    time_ms = key_time_ms(key)
    return time_ms is not None and latest_ms < time_ms <= now_ms + MAX_KEY_LEAD_MS


def latest_key_ms(commit: Commit) -> int:
    """No key of the commit is later, as far as `is_later` needs to know. 0 if it has no key with a time."""
    if commit.before is None:  # Version 0.1.0 stored the key elsewhere.
        return latest_unknown_key_ms(commit.at_us)
    return clipped_key_ms(commit.idempotency_key, commit.at_us)


def clipped_key_ms(key: str, at_us: int) -> int:
    """The time of the key of a commit, but of a key from the far future, the time until which the commit matters."""
    return min(key_time_ms(key) or 0, latest_unknown_key_ms(at_us))


def latest_unknown_key_ms(at_us: int) -> int:
    """The bound for commits up to `at_us` whose keys are not known. 0 without such commits."""
    return at_us // 1000 + RECEIPT_STORED_S * 1000 if at_us else 0
