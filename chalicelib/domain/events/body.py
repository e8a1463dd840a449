"""Bodies of commits: a JSON array of events, one a line, so that an event is found without parsing any."""

from collections.abc import Iterable, Iterator

_BETWEEN = ",\n"
"""JSON text never holds a raw newline, so this stands between two events and nowhere else."""


def body_of(texts: Iterable[str]) -> str:
    """The body of a commit of these encoded events."""
    return f"[{_BETWEEN.join(texts)}]"


def texts_of(body: str) -> list[str]:
    """The JSON of each event."""
    return body[1:-1].split(_BETWEEN)


def texts_with(words: str, body: str) -> Iterator[tuple[int, str]]:
    """Number, from 0, and JSON of each event whose JSON holds these words; the others cost next to nothing."""
    start, number, place = 1, 0, body.find(words, 1)
    while place >= 0:
        number += body.count("\n", start, place)
        start = body.rfind("\n", start, place) + 1 or start
        end = body.find(_BETWEEN, place)
        if end < 0:
            end = len(body) - 1
        if place + len(words) <= end:
            yield number, body[start:end]
            place = end
        place = body.find(words, place + 1)
