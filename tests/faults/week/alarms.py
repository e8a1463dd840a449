"""The alarms that the finished logs call for, by definition, and those that are in the log."""

from collections import Counter
from collections.abc import Sequence

from chalicelib.domain.expectations.expectation import Expectation, Version
from chalicelib.domain.expectations.facts import JobFact
from tests.domain.expectations.reference import Expected, reference_alarms
from tests.faults.week.history import FOREVER, Entry, Life, microseconds

ALARM_KINDS = ("missed", "late", "overdue", "early", "recovered")
JOB_EVENTS = ("create", "progress", "redirect", "finish", "clean")

Alarms = Counter[tuple[str, Expected]]
"""By the name of the expectation and the alarm."""


def logged_alarms(entries: Sequence[Entry]) -> Alarms:
    return Counter((entry.data["expectation"], _identity(entry)) for entry in entries if _is_alarm(entry))


def expected_alarms(lives: Sequence[Life], entries: Sequence[Entry], end_us: int, notice_us: int) -> Alarms:
    """All alarms that fell due before `end_us`, or `notice_us` before their expectation was deleted."""
    facts = [_fact(entry) for entry in entries if entry.type[0] == "job" and entry.type[1] in JOB_EVENTS]
    expected: Alarms = Counter()
    for life in lives:
        versions = _versions(life)
        until_us = end_us if life.deleted == FOREVER else life.deleted - notice_us
        jobs = {fact.job for fact in facts if any(_may_concern(fact, version) for version in versions)}
        own = [fact for fact in facts if fact.job in jobs and fact.event_id < until_us]
        expected.update((life.name, alarm) for alarm in reference_alarms(versions, own, until_us))
    return expected


def _is_alarm(entry: Entry) -> bool:
    return entry.type[0] == "job" and entry.type[1] in ALARM_KINDS


def _identity(entry: Entry) -> Expected:
    """The alarm in the notation of the second computation."""
    data, kind = entry.data, entry.type[1]
    if kind in ("missed", "late"):
        return kind, microseconds(data["slot"]), data.get("job", -1), ""
    if kind == "overdue":
        name = "silentSince" if "silentSince" in data else "startedAt"
        return kind, microseconds(data[name]), data["job"], data["reason"]
    name = "startedAt" if kind == "early" else "finishedAt"
    return kind, microseconds(data[name]), data["job"], ""


def _fact(entry: Entry) -> JobFact:
    job, node = int(entry.key.removeprefix("/job/")), entry.type[2]
    return JobFact(entry.at, entry.type[1], job, entry.job_type, node, entry.data.get("success") == "1")


def _may_concern(fact: JobFact, version: Version) -> bool:
    expectation = version.expectation
    return expectation.key == f"/job/{fact.job}" or (fact.type != "" and fact.type == expectation.type)


def _versions(life: Life) -> list[Version]:
    """The configurations that differ in more than their description. Each holds after its put."""
    versions: list[Version] = []
    before = None
    for at, configuration, since in life.changes:
        rule = {name: value for name, value in configuration.items() if name != "description"}
        if rule != before:
            versions.append(Version(Expectation.model_validate(rule), since, max(since, at - 1)))
        before = rule
    return versions
