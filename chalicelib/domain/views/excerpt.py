"""Excerpts: copies of an object's events in its own record, so that readers need not fetch the commits.

Only small events whose key names the object are copied. The events of a session are either all copied or none of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Self

from pydantic_core import to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.lazy import lazy_property
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.ref import ObjectRef

MAX_EXCERPT_CHARACTERS = 4_000
"""Larger excerpts are not stored: then reading the commit costs little more than reading a copy."""

_TYPE_MEMBER = '{"type":'


class Excerpt(Commit):
    """A commit with the events of one object only. It has no body."""

    key: str
    """The key of the events."""
    numbered_texts: Sequence[tuple[int, str]]
    """Index in the commit, from 0, and JSON of each event."""

    @classmethod
    def of(cls, commit: Commit, key: str, numbered_texts: Sequence[tuple[int, str]]) -> Self:
        """An excerpt of `commit` with these events."""
        excerpt = cls(*commit[:6], body="", before=commit.before)
        excerpt.key, excerpt.numbered_texts = key, numbered_texts
        return excerpt

    @property
    def characters(self) -> int:
        """Size of the events."""
        return sum(len(text) for _, text in self.numbered_texts)

    @lazy_property
    def events(self) -> tuple[Event, ...]:
        """The events of the object in order."""
        return tuple(self.build_events(self.numbered_texts))

    def find_events(self, find: Callable[[str], Iterable[tuple[int, str]]]) -> Iterator[Event]:
        """All events of the excerpt, because they are few."""
        del find
        return iter(self.events)

    def merge(self, other: "Excerpt") -> "Excerpt":
        """An excerpt with the events of two objects."""
        return Excerpt.of(self, self.key, sorted({*self.numbered_texts, *other.numbered_texts}))


def make_excerpt(ref: ObjectRef, commit: Commit, events: Sequence[Event]) -> Excerpt | None:
    """The excerpt with the `events` of an object in `commit`. None if they are not copied."""
    is_small = sum(len(event.text) for event in events) <= MAX_EXCERPT_CHARACTERS
    if commit.before is None or not is_small:
        return None
    key = events[0].fields.key
    if key is None or ref not in vocabularies.objects_with_key(key) or any(event.fields.key != key for event in events):
        return None
    return Excerpt.of(commit, key, [(event.id.instance - 1, event.text) for event in events])


def encode_excerpts(sessions: Iterable[int], excerpts: Mapping[int, Excerpt]) -> dict[str, Any]:
    """The members of a record that contain the excerpts. They are short, because records are rewritten often.

    `k` is the key of all events, and excerpts with another key are left out. `e` has an entry for each session: time
    and position as differences to the previous excerpt, number of events in the commit, and the indexes of the object's
    events. It is empty without an excerpt. `t` has two lines for each event: its type, and what follows its key.
    """
    if not excerpts:
        return {}
    key = next(iter(excerpts.values())).key
    before_key, at_us, before = f',"key":{to_json(key).decode()},', 0, 0
    entries: list[list[int]] = []
    lines: list[str] = []
    for session in sessions:
        excerpt = excerpts.get(session)
        if excerpt is None or excerpt.key != key:
            entries.append([])
            continue
        position = excerpt.before or 0
        indexes = [index for index, _ in excerpt.numbered_texts]
        entries.append([excerpt.at_us - at_us, position - before, excerpt.event_count, *indexes])
        at_us, before = excerpt.at_us, position
        for _, text in excerpt.numbered_texts:
            event_type, _, rest = text.removeprefix(_TYPE_MEMBER).partition(before_key)
            lines += (event_type, rest)
    return {"k": key, "e": entries, "t": "\n".join(lines)}


def decode_excerpts(server: int, sessions: Iterable[int], members: Mapping[str, Any]) -> dict[int, Excerpt]:
    """The inverse of `encode_excerpts`, by session."""
    if "e" not in members:
        return {}
    between = f',"key":{to_json(members["k"]).decode()},'
    lines = iter(members["t"].split("\n"))
    texts = (f"{_TYPE_MEMBER}{event_type}{between}{rest}" for event_type, rest in zip(lines, lines, strict=True))
    at_us = before = 0
    excerpts: dict[int, Excerpt] = {}
    for session, entry in zip(sessions, members["e"], strict=True):
        if entry:
            at_us, before, event_count, indexes = at_us + entry[0], before + entry[1], entry[2], entry[3:]
            # The EventId before it is not stored. This one is the latest possible.
            commit = Commit(server, session, at_us, event_count, at_us - 1, "", "", before)
            excerpts[session] = Excerpt.of(
                commit, members["k"], list(zip(indexes, islice(texts, len(indexes)), strict=True))
            )
    return excerpts
