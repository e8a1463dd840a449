"""List filters: which objects of a collection a list contains."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from chalicelib.domain.objects.ref import State
from chalicelib.domain.objects.summary import ObjectSummary, Result


class Facets(Protocol):
    """The properties of an object that select it without reading its state."""

    @property
    def state(self) -> str: ...

    @property
    def result(self) -> Result | None: ...

    @property
    def type(self) -> str | None: ...

    @property
    def node(self) -> str | None: ...

    @property
    def author(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Selects objects. None, an empty text and no words select everything."""

    state: str | None = None
    result: Result | None = None
    type: str | None = None
    node: str | None = None
    author: str | None = None
    search: str = ""
    """Text that the path or the label must contain."""
    words: tuple[str, ...] = ()
    """Words that the path, the label or a text in the object's state must contain."""
    after_session: int = 0
    to_session: int | None = None
    """The last change must be in a session after `after_session`, up to `to_session`."""
    path_prefixes: tuple[str, ...] = ()
    """The list index is searched for paths that begin with one of them. Empty: for all paths."""

    @property
    def without_state_and_result(self) -> "ListFilter":
        """The filter of the objects that the counts of a list include."""
        return replace(self, state=None, result=None)

    @property
    def counts_everything(self) -> bool:
        """Whether the counts of the list are those of the whole collection."""
        return self.without_state_and_result == ListFilter()

    @property
    def needs_state(self) -> bool:
        """Whether the filter cannot be evaluated without the state of the object."""
        return bool(self.search or self.words)

    def selects_facets(self, session: int, facets: Facets) -> bool:
        """Whether an object with these properties and this last change may be selected."""
        return (
            self.after_session < session
            and (self.to_session is None or session <= self.to_session)
            and self.state in (None, facets.state)
            and self.result in (None, facets.result)
            and self.type in (None, facets.type)
            and self.node in (None, facets.node)
            and self.author in (None, facets.author)
        )

    def selects_text(self, summary: ObjectSummary, state: State) -> bool:
        """Whether the texts of the object contain the search text and all words, ignoring case."""
        if self.search and not summary.contains_text(self.search):
            return False
        if not self.words:
            return True
        text = "\n".join([summary.path, summary.label, *_texts(state)]).casefold()
        return all(word.casefold() in text for word in self.words)

    def selects(self, session: int, summary: ObjectSummary, state: State) -> bool:
        return self.selects_facets(session, summary) and self.selects_text(summary, state)


def _texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value, except the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, Sequence):
        for member in value:
            yield from _texts(member)
