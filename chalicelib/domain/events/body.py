"""The body of a commit: a JSON array with one event per line, so that events can be found without parsing them."""

from collections.abc import Iterable, Iterator

_SEPARATOR = ",\n"
"""Unambiguous, because JSON text never contains a raw newline."""


def join_body(texts: Iterable[str]) -> str:
    """The body of a commit with these encoded events."""
    return f"[{_SEPARATOR.join(texts)}]"


def split_body(body: str) -> list[str]:
    """The JSON of each event."""
    return body[1:-1].split(_SEPARATOR)


def find_in_body(substring: str, body: str) -> Iterator[tuple[int, str]]:
    """Index and JSON of each event whose JSON contains `substring`. Other events are skipped without splitting."""
    start, index, position = 1, 0, body.find(substring, 1)
    while position >= 0:
        index += body.count("\n", start, position)
        start = body.rfind("\n", start, position) + 1 or start
        end = body.find(_SEPARATOR, position)
        if end < 0:
            end = len(body) - 1
        if position + len(substring) <= end:
            yield index, body[start:end]
            position = end
        position = body.find(substring, position + 1)
