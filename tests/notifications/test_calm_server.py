"""Calm observers over HTTP, with a real server, its workers and its mail."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from tests.notifications.fake_channels import FakeChannels, Json, eventually, mail_text
from tests.notifications.observer_client import ObserverClient, create_observer_client, job, server_environment
from tests.serving import run_server

INCIDENT = 1_000
BATCH = 100


def in_future(seconds: float = 3600) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def publish_failures(anna: ObserverClient, numbers: range, job_type: str = "backup") -> None:
    fields = {"type": job_type, "message": "disk full"}
    events = [
        event
        for number in numbers
        for event in (job("create", number, type=job_type), job("finish", number, success="0", **fields))
    ]
    anna.publish(*events)


def test_incident_of_thousand_failures_makes_one_mail(anna: ObserverClient) -> None:
    anna.put("ops", types=["job/finish/*"], digest="2s", group_by=["type"])
    anna.put("changes", types=["job/finish/*"], when="change", config={"to": f"changes.{anna.address}"})
    for start in range(0, INCIDENT, BATCH):
        publish_failures(anna, range(start, start + BATCH))
    assert anna.wait_until_settled("changes", 1) == {"sent": 1}
    total = eventually(lambda: _reported(anna), lambda events: events == INCIDENT)
    mails = anna.channels.mails(anna.address)
    # The window may end before all requests are sent.
    assert (total, len(mails) <= 3) == (INCIDENT, True)
    text = mail_text(mails[0])
    assert mails[0]["Subject"].startswith("FAILED backup on n1 (#0): disk full (and ")
    assert [f"(#{number})" in text for number in range(6)] == [True] * 5 + [False]
    assert text.count(f"/#/objects/job/0?org={anna.name}") == 1
    assert anna.channels.subjects(f"changes.{anna.address}") == ["FAILED backup on n1 (#0): disk full"]


def _reported(anna: ObserverClient) -> int:
    """Number of events in all mails."""
    counts = [
        line.split()[1]
        for mail in anna.channels.mails(anna.address)
        for line in mail_text(mail).splitlines()
        if line.startswith("Events  ")
    ]
    return sum(map(int, counts))


@pytest.mark.parametrize("channel", ["slack", "app"])
def test_digest_is_sent_to_other_channels(anna: ObserverClient, channel: str) -> None:
    anna.put("ops", channel, types=["job/finish/*"], digest="1s")
    publish_failures(anna, range(7))
    assert anna.wait_until_settled("ops", 1) == {"sent": 1}
    title = "FAILED backup on n1 (#0): disk full (and 6 more)"
    if channel == "slack":
        (post,) = anna.channels.slack.attachments(anna.slack_channel)
        assert (post["title"], "… and 2 more" in post["text"]) == (title, True)
    else:
        (message,) = anna.inbox()
        assert (message["subject"], "… and 2 more" in message["body"]) == (title, True)


def test_observer_returns_its_calm_fields(anna: ObserverClient) -> None:
    fields: Json = {
        "when": "failures(3)",
        "group_by": ["type", "node"],
        "digest": "08:00, 16:00",
        "throttle": "30m",
        "quiet": "22:00-07:00",
        "time_zone": "Europe/Berlin",
    }
    assert {name: anna.put("ops", **fields)[name] for name in fields} == fields
    assert fields.keys().isdisjoint(anna.put("plain"))


def test_snooze_holds_messages_and_ends(anna: ObserverClient) -> None:
    anna.put("ops", types=["job/finish/*"])
    until = in_future()
    snoozed = anna.request("POST", "ops/snooze", {"until": until}).json()
    assert datetime.fromisoformat(snoozed["snoozedUntil"]) == datetime.fromisoformat(until)
    publish_failures(anna, range(3))
    assert anna.request("GET", "ops").json()["snoozedUntil"] == snoozed["snoozedUntil"]
    ended = anna.request("POST", "ops/snooze", {"until": None}).json()
    assert "snoozedUntil" not in ended
    assert anna.wait_until_settled("ops", 1) == {"sent": 1}
    assert anna.channels.subjects(anna.address) == ["FAILED backup on n1 (#0): disk full (and 2 more)"]


def test_snooze_is_for_those_who_may_change_the_observer(anna: ObserverClient) -> None:
    anna.put("ops")
    ben = anna.colleague("ben", "publishers", "readers")
    answer = ben.request("POST", "ops/snooze", {"until": in_future()})
    assert answer.status_code == 404
    ben.put("mine", "app", scope="private", config={})
    assert ben.request("POST", "mine/snooze", {"until": in_future()}).status_code == 200


def test_silence_mutes_observers_until_it_is_ended(anna: ObserverClient) -> None:
    anna.put("ops", types=["job/finish/*"])
    body = {"type": "backup", "until": in_future(), "comment": "new disks"}
    answer = anna.member.request("POST", "/silences", json=body)
    assert answer.status_code == 201
    silence = answer.json()
    assert (silence["type"], silence["comment"], silence["by"]) == ("backup", "new disks", anna.member.user)
    assert anna.member.get("/silences").json() == {"silences": [silence], "moreFollows": False}
    publish_failures(anna, range(1))
    assert anna.member.request("DELETE", f"/silences/{silence['id']}").json() == {"ended": silence["id"]}
    assert anna.member.request("DELETE", f"/silences/{silence['id']}").status_code == 404
    assert anna.member.get("/silences").json()["silences"] == []
    publish_failures(anna, range(1, 2))
    assert anna.wait_until_settled("ops", 1) == {"sent": 1}
    assert anna.channels.subjects(anna.address) == ["FAILED backup on n1 (#1): disk full"]


def test_acknowledgement_ends_when_the_job_recovers(anna: ObserverClient) -> None:
    anna.put("ops", types=["job/finish/*"])
    answer = anna.member.request("POST", "/acknowledgements", json={"type": "backup", "comment": "I am on it"})
    assert answer.status_code == 201
    listed = anna.member.get("/acknowledgements").json()["acknowledgements"]
    assert listed == [answer.json()]
    publish_failures(anna, range(2))
    anna.publish(job("create", 2), job("finish", 2))
    assert anna.member.get("/acknowledgements").json()["acknowledgements"] == []
    publish_failures(anna, range(3, 4))
    assert anna.wait_until_settled("ops", 2) == {"sent": 2}
    assert anna.channels.subjects(anna.address) == [
        "Succeeded backup on n1 (#2): done",
        "FAILED backup on n1 (#3): disk full",
    ]


def test_readers_list_silences_and_write_none(anna: ObserverClient) -> None:
    ben = anna.colleague("ben")
    for path, body in (
        ("/silences", {"type": "backup", "until": in_future()}),
        ("/acknowledgements", {"type": "backup"}),
    ):
        assert ben.member.get(path).status_code == 200
        assert ben.member.request("POST", path, json=body).status_code == 403
    assert ben.member.request("DELETE", "/silences/17").status_code == 403


def test_silences_are_listed_in_pages(anna: ObserverClient) -> None:
    ids = [
        anna.member.request("POST", "/silences", json={"pattern": f"job/?/n{n}/*", "until": in_future()}).json()["id"]
        for n in range(3)
    ]
    first = anna.member.get("/silences", params={"limit": 2}).json()
    second = anna.member.get("/silences", params={"limit": 2, "before": first["silences"][-1]["id"]}).json()
    assert [one["id"] for one in [*first["silences"], *second["silences"]]] == ids[::-1]
    assert (first["moreFollows"], second["moreFollows"]) == (True, False)


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/silences", {"type": "backup", "until": "2020-01-01T00:00:00Z"}, "until must be later than now"),
        ("/silences", {"until": "2100-01-01T00:00:00Z"}, "give either type"),
        ("/silences", {"type": "a", "pattern": "b", "until": "2100-01-01T00:00:00Z"}, "give either type"),
        ("/silences", {"type": "backup"}, "until"),
        ("/silences", {"type": "a/b", "until": "2100-01-01T00:00:00Z"}, "type"),
        ("/acknowledgements", {}, "type"),
        ("/acknowledgements", {"type": ""}, "type"),
        ("/acknowledgements", {"type": "backup", "until": "2020-01-01T00:00:00Z"}, "until must be later than now"),
        ("/observers/ops/snooze", {}, "until"),
    ],
)
def test_invalid_requests_are_refused(anna: ObserverClient, path: str, body: Json, reason: str) -> None:
    anna.put("ops")
    answer = anna.member.request("POST", path, json=body)
    assert (answer.status_code, reason in answer.text) == (400, True), answer.text


def test_preview_and_test_ignore_calm_fields(anna: ObserverClient) -> None:
    configuration = anna.put("ops", types=["job/finish/*"], digest="24h", when="failures(3)", quiet="00:00-23:59")
    publish_failures(anna, range(1))
    wanted = {name: configuration[name] for name in ("channel", "types", "digest", "when", "quiet", "config")}
    preview = anna.request("POST", "ops/preview", {"configuration": wanted})
    assert preview.json()["message"]["subject"] == "FAILED backup on n1 (#0): disk full"
    assert anna.request("POST", "ops/test", {}).status_code == 200
    assert anna.channels.subjects(anna.address) == ["[Test] FAILED backup on n1 (#0): disk full"]


def test_held_messages_survive_loss_of_views(tmp_path: Path, channels: FakeChannels, authority: trustme.CA) -> None:
    environment = server_environment(channels, tmp_path, authority)
    with run_server(tmp_path / "data", **environment) as server:
        anna = create_observer_client(server, channels)
        anna.put("ops", types=["job/finish/*"], digest="6s")
        anna.put("plain", types=["job/finish/*"], config={"to": f"plain.{anna.address}"})
        publish_failures(anna, range(10))
        anna.wait_until_settled("plain", 10)
        assert anna.channels.mails(anna.address) == []
    for file in (tmp_path / "data").glob("views.sqlite*"):
        file.unlink()
    with run_server(tmp_path / "data", **environment) as server:
        anna = create_observer_client(server, channels, anna.name)
        assert anna.wait_until_settled("ops", 1) == {"sent": 1}
    assert anna.channels.subjects(anna.address) == ["FAILED backup on n1 (#0): disk full (and 9 more)"]
