"""Evaluate a run: check the final log against the journals."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.torture.checks import journal
from tests.torture.checks.checker import Kind, Violation, violations
from tests.torture.checks.report import Outcome
from tests.torture.checks.stored import StoredItem, stored_violations
from tests.torture.faults import Fault
from tests.torture.workers.pool import WorkerPool


def evaluate(
    target: str,
    home: Path,
    items: Iterable[StoredItem],
    pools: Sequence[WorkerPool],
    faults: Counter[Fault] | None = None,
    unexpected_results: Sequence[str] = (),
) -> Outcome:
    """`items` are those of the log, in the order of their sessions."""
    items = list(items)
    commits = [commit for item in items for commit in item.commits]
    journals = journal.read_journals(home)
    evidence = journal.evidence(journals)
    unexpected = [
        *journal.unexpected_results(journals),
        *(text for pool in pools for text in pool.unexpected_results),
        *unexpected_results,
    ]
    answered = evidence.acknowledged.keys() | evidence.refused
    return Outcome(
        target=target,
        attempted=len(evidence.sent),
        hostile=journal.hostile_request_count(journals),
        acknowledged=len(evidence.acknowledged),
        acknowledged_events=sum(evidence.sent[tag].count for tag in evidence.acknowledged),
        refused=len(evidence.refused),
        unacknowledged=len(evidence.sent.keys() - answered),
        events=sum(commit.event_count for commit in commits),
        readings=len(evidence.readings),
        read=sum(len(reading.seen) for reading in evidence.readings),
        runs=sum(len(item.commits) > 1 for item in items),
        faults=sum((pool.faults for pool in pools), journal.faults(journals) + (faults or Counter())),
        violations=(
            *stored_violations(items),
            *violations(commits, evidence),
            *(Violation(Kind.UNANSWERED, str(request)) for request in journal.unanswered_requests(journals.values())),
            *(Violation(Kind.UNEXPECTED, text) for text in unexpected),
        ),
    )
