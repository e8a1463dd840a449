"""The verdict: what a run left behind, checked and counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from chalicelib.domain.log.commit import Commit
from tests.torture import journal
from tests.torture.checker import Kind, Violation, violations
from tests.torture.crew import Crew
from tests.torture.faults import Fault
from tests.torture.report import Outcome


def verdict(
    target: str,
    home: Path,
    log: Iterable[Commit],
    crews: Sequence[Crew],
    faults: Counter[Fault] | None = None,
    surprises: Sequence[str] = (),
) -> Outcome:
    """The outcome of a run: the final log against the journals of all who took part."""
    commits = list(log)
    journals = journal.read_all(home)
    evidence = journal.evidence(journals)
    surprised = [*journal.surprises(journals), *(text for crew in crews for text in crew.surprises), *surprises]
    answered = evidence.acknowledged.keys() | evidence.refused
    return Outcome(
        target=target,
        attempted=len(evidence.asked),
        hostile=journal.thrown(journals),
        acknowledged=len(evidence.acknowledged),
        acknowledged_events=sum(evidence.asked[tag].count for tag in evidence.acknowledged),
        refused=len(evidence.refused),
        unacknowledged=len(evidence.asked.keys() - answered),
        events=sum(commit.n for commit in commits),
        readings=len(evidence.readings),
        read=sum(len(reading.seen) for reading in evidence.readings),
        faults=sum((crew.faults for crew in crews), journal.faults(journals) + (faults or Counter())),
        violations=(
            *violations(commits, evidence),
            *(Violation(Kind.UNANSWERED, str(request)) for request in journal.unfinished(journals.values())),
            *(Violation(Kind.SURPRISE, text) for text in surprised),
        ),
    )
