"""Export the commits of local logs.

The first export is full. Each later one contains the commits since the previous one, without gaps and overlaps. The
content of an export is fixed by the heads of the logs before it starts. Commits that are appended meanwhile belong to
the next one.
"""

from collections.abc import Callable, Iterator, Sequence

from chalicelib.domain.errors import BadInput, LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.exports.export import DynamoDbItem, Export, Ledger, Span, encode_line, new_export, span_between
from chalicelib.domain.log.commit import Commit, verify_contiguous
from chalicelib.services.ports import Log

ItemBuilder = Callable[[Commit], DynamoDbItem]
"""Builds the item as which DynamoDB would store a commit."""


def next_export(ledger: Ledger, log: Log, servers: Sequence[int], now_ms: int, full: bool = False) -> Export | None:
    """The export to run now. None if there are no new commits.

    An export that was planned but not completed comes first, unless a `full` one is requested. Raises `BadInput` if the
    previous exports are of other logs, because all exports together are one history.
    """
    if not _are_in_log(ledger.ends, log):
        raise BadInput("the exports in this directory are of another log. Export to another directory")
    if ledger.planned is not None and not full and _are_in_log(ledger.planned.spans, log):
        return ledger.planned
    is_first = full or ledger.ended_ms is None
    ends = {} if is_first else {end.server: end for end in ledger.ends}
    spans = [_next_span(log, server, ends.get(server)) for server in servers]
    if not is_first and all(span.session == span.after for span in spans):
        return None
    # The times of exports increase even if the clock does not.
    to_ms = max(now_ms, (ledger.ended_ms or 0) + 1)
    return new_export(None if is_first else ledger.ended_ms, to_ms, spans)


def export_lines(export: Export, log: Log, build_item: ItemBuilder) -> Iterator[bytes]:
    """The lines of the data files, one for each commit, read page by page."""
    for span in export.spans:
        for commit in _read_span(log, span):
            yield encode_line(export.kind, commit, build_item(commit))


def _next_span(log: Log, server: int, end: Span | None) -> Span:
    """The commits after `end`. All kept commits if there is no `end`, or if it is older than the first kept commit."""
    start = log.start(server)
    after = start if end is None or end.session < start.session else Head(server, end.session, 0, end.last)
    return span_between(after, log.head(server))


def _are_in_log(ends: Sequence[Span], log: Log) -> bool:
    """Whether the logs still contain the ends of these spans. Otherwise the data was replaced."""
    return all(_is_in_log(log, end) for end in ends)


def _is_in_log(log: Log, end: Span) -> bool:
    if end.session == 0:
        return True
    commit = log.commit(end.server, end.session)
    if commit is not None:
        return commit.last_event_id == end.last
    # Retention may have deleted it. Then the log starts after it.
    return log.start(end.server).session >= end.session


def _read_span(log: Log, span: Span) -> Iterator[Commit]:
    """The commits of a span, verified to be contiguous. Commits that retention deletes meanwhile are left out."""
    head = Head(span.server, span.after, 0, span.after_last)
    while head.session < span.session:
        try:
            for commit in verify_contiguous(head, log.read(span.server, head.session)):
                if commit.session > span.session:
                    return
                yield commit
                head = commit.head
        except LogBroken:
            start = log.start(span.server)
            if start.session <= head.session:
                raise
            head = start
        else:
            return
