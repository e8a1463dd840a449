"""Exporting: the commits of local logs, in exports that join without a gap and without an overlap.

The first export is full, each later one holds what came since the one before. What an export holds is settled by the
heads of the logs before it begins: what is appended meanwhile belongs to the next one.
"""

from collections.abc import Callable, Iterator, Sequence

from chalicelib.domain.errors import BadInput, LogBroken
from chalicelib.domain.events.head import Head
from chalicelib.domain.exports.export import Export, Item, Ledger, Span, line_of, new_export, span
from chalicelib.domain.log.commit import Commit, chained
from chalicelib.services.ports import Log

Items = Callable[[Commit], Item]
"""Makes the items that DynamoDB would keep."""


def next_export(ledger: Ledger, log: Log, servers: Sequence[int], now_ms: int, full: bool = False) -> Export | None:
    """What to export now; None if nothing has come since the last export.

    An export that was planned and not completed comes first, unless a `full` one is asked for. Logs that are not those
    that were exported before are refused: readers take all exports together for one history.
    """
    if not _goes_on(ledger.ends, log):
        raise BadInput("what was exported before is of another log; export to another directory")
    if ledger.planned is not None and not full and _goes_on(ledger.planned.spans, log):
        return ledger.planned
    is_first = full or ledger.ended_ms is None
    ends = {} if is_first else {end.server: end for end in ledger.ends}
    spans = [_span(log, server, ends.get(server)) for server in servers]
    if not is_first and all(one.session == one.after for one in spans):
        return None
    # Time goes on from export to export, whatever the clock does.
    to_ms = max(now_ms, (ledger.ended_ms or 0) + 1)
    return new_export(None if is_first else ledger.ended_ms, to_ms, spans)


def lines(export: Export, log: Log, item_of: Items) -> Iterator[bytes]:
    """The lines of the export's data files, one for each commit, read page by page."""
    for one in export.spans:
        for commit in _commits(log, one):
            yield line_of(export.kind, commit, item_of(commit))


def _span(log: Log, server: int, end: Span | None) -> Span:
    """What there is after an end; if that is past retention, or there is none, all that is kept."""
    start = log.start(server)
    after = start if end is None or end.session < start.session else Head(server, end.session, 0, end.last)
    return span(after, log.head(server))


def _goes_on(ends: Sequence[Span], log: Log) -> bool:
    """Tell whether the logs still hold what they held: somebody may have put others in their place."""
    return all(_holds(log, end) for end in ends)


def _holds(log: Log, end: Span) -> bool:
    if end.session == 0:
        return True
    commit = log.commit(end.server, end.session)
    if commit is not None:
        return commit.last == end.last
    # It may be past retention; then the log begins after it.
    return log.start(end.server).session >= end.session


def _commits(log: Log, wanted: Span) -> Iterator[Commit]:
    """The commits of a span, each checked to be the next; those that retention forgets meanwhile are left out."""
    head = Head(wanted.server, wanted.after, 0, wanted.after_last)
    while head.session < wanted.session:
        try:
            for commit in chained(head, log.read(wanted.server, head.session)):
                if commit.session > wanted.session:
                    return
                yield commit
                head = commit.head
        except LogBroken:
            start = log.start(wanted.server)
            if start.session <= head.session:
                raise
            head = start
        else:
            return
