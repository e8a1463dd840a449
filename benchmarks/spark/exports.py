"""Exports for the Spark benchmark: shifted copies of the month of `make demo`, in deflated commits of 20 events."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from chalicelib.adapters.dynamodb.items import item_from_commit
from chalicelib.domain.events.body import join_body
from chalicelib.domain.exports.export import Export, Span, encode_line, new_export
from chalicelib.domain.log.commit import Commit
from infra.server.commands.export_folder import ExportFolder
from infra.tools.demo.month import DemoSpec, generate_requests
from infra.tools.progress import Progress

MONTH_EVENTS = 200_000
COMMIT_EVENTS = 20
END_MS = 1_793_491_200_000
"""End of October 2026."""
DAY_MS = 86_400_000
SHIFT_MS = 7_919_000
"""Each copy of the month is shifted back by this much."""

_NUMBERS = re.compile(r'("key":"/(?:job/|jobset/|push/|[a-z]+/[a-z]+,)|"jobset":)')


def write(to: Path, events: int) -> None:
    """Write a full export of `events` events."""
    commits = events // COMMIT_EVENTS
    span = Span(server=1, after=0, after_last=0, session=commits, last=0)
    _write(to, new_export(None, END_MS, [span]), _commits(events, 0))


def write_day(to: Path, after: int, events: int) -> None:
    """Write an incremental export of `events` events of the next day, after the first `after` events."""
    done, commits = after // COMMIT_EVENTS, events // COMMIT_EVENTS
    span = Span(server=1, after=done, after_last=0, session=done + commits, last=0)
    _write(to, new_export(END_MS, END_MS + DAY_MS, [span]), _commits(events, done))


def _write(to: Path, export: Export, commits: Iterator[Commit]) -> None:
    progress = Progress("Making an export", export.commits, "commits")
    lines = (encode_line(export.kind, commit, item_from_commit(commit)) for commit in islice(commits, export.commits))
    to.mkdir(parents=True, exist_ok=True)
    ExportFolder(to, lambda: export.to_ms).write(export, lines, progress.update)
    progress.finish(f"An export of {export.commits:,} commits: {to}")


def _commits(events: int, done: int) -> Iterator[Commit]:
    last = 0
    for session, (at_ms, texts) in enumerate(_chunks(events, done > 0), start=done + 1):
        at = max(at_ms * 1000, last + 1)
        yield Commit(1, session, at, len(texts), last, f"request-{session:08d}-of-the-benchmark", join_body(texts))
        last = at + len(texts) - 1


def _chunks(events: int, is_day: bool) -> Iterator[tuple[int, list[str]]]:
    """Batches of 20 events of all copies in order of time, or of one copy compressed to a day."""
    copies = -(-events // MONTH_EVENTS)
    month = generate_requests(DemoSpec(seed=5, end_ms=END_MS, events=min(events, MONTH_EVENTS)), lambda _: None)
    texts = [(request.at_ms, text) for request in month for text in request.texts]
    first_ms = texts[0][0]
    order = sorted(
        (texts[min(begin + COMMIT_EVENTS, len(texts)) - 1][0] - copy * SHIFT_MS, copy, begin)
        for copy in range(copies)
        for begin in range(0, len(texts), COMMIT_EVENTS)
    )
    for at_ms, copy, begin in order:
        numbered = partial(_NUMBERS.sub, rf"\g<1>{99 if is_day else copy + 10}")
        in_day_ms = END_MS + (at_ms - first_ms) * DAY_MS // (END_MS - first_ms + 1)
        yield in_day_ms if is_day else at_ms, [numbered(text) for _, text in texts[begin : begin + COMMIT_EVENTS]]
