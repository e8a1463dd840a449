"""Presets of observers."""

import pytest

from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import ObserverClient, job

NAMES = ["job-failed", "my-job-ended", "job-missing-or-late", "job-recovered"]


def presets(anna: ObserverClient) -> list[Json]:
    answer = anna.member.get("/observer-presets")
    assert answer.status_code == 200, answer.text
    listed: list[Json] = answer.json()["presets"]
    return listed


def put_preset(anna: ObserverClient, name: str) -> Json:
    (preset,) = (one for one in presets(anna) if one["name"] == name)
    private = preset["configuration"]["scope"] == "private"
    return anna.put(name, "app", **preset["configuration"], config={} if private else {"to": "anna"})


def subjects(anna: ObserverClient, *names: str, deliveries: int) -> list[str]:
    for name in names:
        anna.wait_until_settled(name, deliveries)
    return [message["subject"] for message in anna.inbox("anna", after=0)]


def test_presets_have_titles_and_no_addresses(anna: ObserverClient) -> None:
    listed = presets(anna)
    assert [one["name"] for one in listed] == NAMES
    assert all(one["title"] and one["description"] for one in listed)
    assert all("config" not in one["configuration"] for one in listed)


@pytest.mark.parametrize("name", NAMES)
def test_preset_is_valid_configuration(anna: ObserverClient, name: str) -> None:
    assert put_preset(anna, name)["channel"] == "app"


def test_job_failed_notifies_of_failures_only(anna: ObserverClient) -> None:
    put_preset(anna, "job-failed")
    anna.publish(job("create", 1), job("finish", 1), job("create", 2), job("finish", 2, success="0"))
    assert subjects(anna, "job-failed", deliveries=2) == ["FAILED backup on n1 (#2): done"]


def test_my_job_ended_notifies_author_only(anna: ObserverClient) -> None:
    put_preset(anna, "my-job-ended")
    mine, other = {"props": {"author": "anna"}}, {"props": {"author": "ben"}}
    anna.publish(job("create", 1, **mine), job("finish", 1, **mine), job("create", 2, **other))
    anna.publish(job("finish", 2, **other))
    assert subjects(anna, "my-job-ended", deliveries=1) == ["Succeeded backup on n1 (#1): done"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("missed", "job-missing-or-late"),
        ("late", "job-missing-or-late"),
        ("overdue", "job-missing-or-late"),
        ("recovered", "job-recovered"),
    ],
)
def test_alarms_are_observed_by_one_preset(anna: ObserverClient, kind: str, name: str) -> None:
    for each in NAMES[2:]:
        put_preset(anna, each)
    anna.member.post({"events": [{"type": ["job", kind, "", "backup"], "key": "/expectation/nightly"}]})
    assert anna.wait_until_settled(name, 1) == {"sent": 1}
    assert sum(sum(anna.deliveries(each).values()) for each in NAMES[2:]) == 1


def test_presets_need_read_access(anna: ObserverClient) -> None:
    assert anna.colleague("pat", "publishers").member.get("/observer-presets").status_code == 403
