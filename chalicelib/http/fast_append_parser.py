"""Fast parser for the most common append requests.

`parse_simple_append` returns exactly the result of `AppendRequest` and `encode_within_limits`, several times faster. It
returns None for requests that are invalid or have less common fields. pydantic then parses them and explains errors.
"""

from functools import lru_cache
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, MsgspecError, Struct, UnsetType, field
from msgspec.json import Decoder, Encoder

from chalicelib.domain import timestamps
from chalicelib.domain.events.event import MAX_TAG_CHARS, MAX_TAGS
from chalicelib.domain.events.event_type import MAX_SUBTYPES, MAX_TYPE_OR_KEY_BYTES, RESERVED_CHARACTERS
from chalicelib.domain.log.append import MAX_BYTES, MAX_EVENTS

_MAX_CHARS = MAX_TYPE_OR_KEY_BYTES // 4
"""Text of this length is within the limit in bytes, since a character has at most 4 bytes."""
_MAX_BRACKETS = 150
"""JSON with this many brackets is not nested too deep for any parser."""
_MAX_UNCHECKED_CHARS = 2 * _MAX_BRACKETS
"""JSON of this length has at most `_MAX_BRACKETS` opening brackets."""


_Tag = Annotated[str, Meta(min_length=1, max_length=MAX_TAG_CHARS)]


class _Payload(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["json"]
    data: Any


class _Event(Struct, forbid_unknown_fields=True, gc=False):
    """The log stores the members in this order."""

    type: tuple[str, ...]
    key: Annotated[str, Meta(min_length=1, max_length=_MAX_CHARS)] | None = None
    source_timestamp: Any = field(default=None, name="sourceTimestamp")
    payload: _Payload | None = None
    tags: Annotated[list[_Tag], Meta(max_length=MAX_TAGS)] | UnsetType | None = UNSET
    """Left out of the encoded event unless it is set."""


class _Request(Struct, forbid_unknown_fields=True, gc=False):
    events: Annotated[list[_Event], Meta(min_length=1, max_length=MAX_EVENTS)]


_decoder = Decoder(_Request)
_encoder = Encoder()


def parse_simple_append(body: bytes) -> tuple[str, ...] | None:
    """The JSON of each event, as the log stores it, or None if `body` needs the complete parser."""
    try:
        events = _decoder.decode(body).events
        for event in events:
            if not _is_valid_type(event.type):
                return None
            if event.source_timestamp is not None:
                event.source_timestamp = timestamps.iso(timestamps.parse(event.source_timestamp))
            if event.tags is not UNSET:
                event.tags = list(dict.fromkeys(event.tags or ())) or UNSET
        lines = _encoder.encode_lines(events)
    except (MsgspecError, ValueError, RecursionError):
        return None
    if len(lines) + len(events) > MAX_BYTES:
        return None
    texts = tuple(lines.decode().split("\n")[:-1])
    if max(map(len, texts)) > _MAX_UNCHECKED_CHARS and max(map(_count_brackets, texts)) > _MAX_BRACKETS:
        return None
    return texts


@lru_cache(maxsize=4096)
def _is_valid_type(event_type: tuple[str, ...]) -> bool:
    """Cached, because the same few types occur again and again."""
    return (
        len(event_type) <= MAX_SUBTYPES
        and sum(map(len, event_type)) <= _MAX_CHARS
        and all(map(RESERVED_CHARACTERS.isdisjoint, event_type))
    )


def _count_brackets(text: str) -> int:
    return text.count("{") + text.count("[")
