"""Plain appends: what nearly all publishers send, read and encoded in one go.

`texts` gives exactly what `AppendRequest` and `encoded` would give, several times as fast, or nothing. Whatever is not
plain, or breaks a rule, is for them: they know every form, and say what is wrong.
"""

from functools import lru_cache
from typing import Annotated, Any, Literal

from msgspec import Meta, MsgspecError, Struct, field
from msgspec.json import Decoder, Encoder

from chalicelib.domain import timestamps
from chalicelib.domain.events.event_type import LONGEST_BYTES, RESERVED
from chalicelib.domain.log.append import MOST_BYTES, MOST_EVENTS

_SHORT = LONGEST_BYTES // 4
"""So many characters are short enough, whatever they are."""
_SHALLOW = 150
"""Text with so few brackets is not nested too deep for any reader ..."""
_FLAT = 2 * _SHALLOW
"""... and in text as short as this there are not more that open."""


class _Payload(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["json"]
    data: Any


class _Event(Struct, forbid_unknown_fields=True, gc=False):
    """Its members are encoded in this order, as the log keeps them."""

    type: tuple[str, ...]
    key: Annotated[str, Meta(min_length=1, max_length=_SHORT)] | None = None
    source_timestamp: Any = field(default=None, name="sourceTimestamp")
    payload: _Payload | None = None


class _Request(Struct, forbid_unknown_fields=True, gc=False):
    events: Annotated[list[_Event], Meta(min_length=1, max_length=MOST_EVENTS)]


_decoder = Decoder(_Request)
_encoder = Encoder()


def texts(body: bytes) -> tuple[str, ...] | None:
    """The JSON of each event of a plain request, as the log keeps it."""
    try:
        events = _decoder.decode(body).events
        for event in events:
            if event.source_timestamp is not None:
                event.source_timestamp = timestamps.iso(timestamps.parse(event.source_timestamp))
        if not all(map(_is_type, {event.type for event in events})):
            return None
        lines = _encoder.encode_lines(events)
    except (MsgspecError, ValueError, RecursionError):
        return None
    if len(lines) + len(events) > MOST_BYTES:
        return None
    found = tuple(lines.decode().split("\n")[:-1])
    if max(map(len, found)) > _FLAT and max(map(_brackets, found)) > _SHALLOW:
        return None
    return found


@lru_cache(maxsize=4096)
def _is_type(event_type: tuple[str, ...]) -> bool:
    """Types are few, and the same ones come again and again."""
    return sum(map(len, event_type)) <= _SHORT and all(
        subtype and RESERVED.isdisjoint(subtype) for subtype in event_type
    )


def _brackets(text: str) -> int:
    return text.count("{") + text.count("[")
