"""What events say about their jobs, and their groups."""

from typing import Any

import pytest

from chalicelib.domain.calm.outcomes import MAX_GROUP_CHARS, group_of, job_type_of, outcome_of
from chalicelib.domain.events.event import EventFields


def fields(event_type: str, data: Any = None, key: str | None = "/job/1") -> EventFields:
    return EventFields(
        tuple(event_type.split("/")), key, None, None if data is None else {"type": "json", "data": data}
    )


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (fields("job/finish/n1/backup", {"success": "1"}), "success"),
        (fields("job/finish/n1/backup", {"success": "0"}), "failure"),
        (fields("job/finish/n1/backup", {"success": 1}), "success"),
        (fields("job/finish/n1/backup"), "failure"),
        (fields("job/finish/n1"), "other"),
        (fields("job/clean/n1/backup", {}), "failure"),
        (fields("job/create/n1/backup", {}), "other"),
        (fields("job/progress/n1/backup", {"state": "failed"}), "other"),
        (fields("job/missed/n1/backup"), "failure"),
        (fields("job/late//backup"), "failure"),
        (fields("job/overdue/n1/"), "failure"),
        (fields("job/early/n1/backup"), "failure"),
        (fields("job/recovered/n1/backup"), "recovery"),
        (fields("jobset/finishJobSet/n1", {"jobs": [{"success": "1"}, {"success": "0"}]}), "failure"),
        (fields("jobset/finishJobSet/n1", {"jobs": [{"success": "1"}]}), "success"),
        (fields("jobset/finishJobSet/n1", {"jobs": ["?"]}), "failure"),
        (fields("jobset/finishJobSet/n1", {"jobs": []}), "other"),
        (fields("jobset/finishJobSet/n1", "text"), "other"),
        (fields("jobset/cleanJobSet/n1", {}), "failure"),
        (fields("notification/failed/mail/ops", {}), "failure"),
        (fields("disk/full"), "other"),
        (fields(""), "other"),
    ],
)
def test_outcome_of_event(event: EventFields, outcome: str) -> None:
    assert outcome_of(event) == outcome


@pytest.mark.parametrize(
    ("event", "job_type", "group"),
    [
        (fields("job/finish/n1/backup"), "backup", "backup/n1//job/1"),
        (fields("job/missed//backup", key="/expectation/nightly"), "backup", "backup///expectation/nightly"),
        (fields("job/redirect/n1", {"type": "backup"}), "backup", "backup/n1//job/1"),
        (fields("job/redirect/n1", {}), "", "/n1//job/1"),
        (fields("jobset/finishJobSet/n1", {}), "", "jobset/n1//job/1"),
        (fields("disk/full/here", key=None), "", "disk/full/here//"),
    ],
)
def test_job_type_and_group_of_event(event: EventFields, job_type: str, group: str) -> None:
    assert (job_type_of(event), group_of(event, ("type", "node", "key"))) == (job_type, group)


def test_long_groups_have_short_different_names() -> None:
    names = {group_of(fields("disk/full", key=f"{'k' * 900}{n}"), ("type", "key")) for n in range(3)}
    assert len(names) == 3
    assert max(map(len, names)) <= MAX_GROUP_CHARS
