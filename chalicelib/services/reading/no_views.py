"""Views without any record, for readers that need no views."""

from collections.abc import Iterator, Sequence

from chalicelib.domain.views.record import ConditionalWrite, Record


class NoViews:
    """Views without any record, which make a `LogReader` read everything from the log."""

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        del view, items
        return {}

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        del view, start, end, backwards
        return iter(())

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        """Refuse all changes."""
        return list(changes)

    def delete(self, view: str, items: Sequence[str]) -> None:
        pass

    def drop(self, view: str) -> int:
        del view
        return 0
