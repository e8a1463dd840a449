"""The history of deliveries over HTTP: results, events, pages and permissions."""

from typing import Any

import pytest

from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import ObserverClient, job


def history(client: ObserverClient, path: str, **parameters: Any) -> Json:
    response = client.member.get(path, params=parameters)
    assert response.status_code == 200, response.text
    document: Json = response.json()
    return document


def deliveries(client: ObserverClient, name: str, **parameters: Any) -> list[Json]:
    entries: list[Json] = history(client, f"/observers/{name}/deliveries", **parameters)["deliveries"]
    return entries


def test_history_names_event_channel_address_and_result(anna: ObserverClient) -> None:
    anna.put("ops", filter="event.event != 'progress'")
    created, progress = anna.publish(job("create", 1), job("progress", 1))
    anna.wait_until_settled("ops", 2)
    second, first = deliveries(anna, "ops")
    assert first == {
        "id": "{server}.{session}.{instance}/ops".format(**first["event"]),
        "observer": "ops",
        "channel": "mail",
        "event": {"server": first["event"]["server"], "session": 1, "instance": 1},
        "eventId": created,
        "type": ["job", "create", "n1", "backup"],
        "key": "/job/1",
        "address": anna.address,
        "replay": None,
        "state": "sent",
        "tries": 1,
        "error": None,
        "at": first["at"],
    }
    assert (second["eventId"], second["state"], second["error"]) == (progress, "dropped", "filtered")


def test_history_keeps_channel_of_the_time_of_delivery(anna: ObserverClient) -> None:
    anna.put("ops")
    anna.publish(job("create", 1))
    anna.wait_until_settled("ops", 1)
    anna.put("ops", "app")
    anna.publish(job("finish", 1))
    anna.wait_until_settled("ops", 2)
    assert [(entry["channel"], entry["address"]) for entry in deliveries(anna, "ops")] == [
        ("app", "anna"),
        ("mail", anna.address),
    ]


def test_history_is_paged_by_cursor(anna: ObserverClient) -> None:
    anna.put("ops", "app")
    event_ids = anna.publish(*(job("create", number) for number in range(5)))
    anna.wait_until_settled("ops", 5)
    found, cursor = list[int](), ""
    while cursor is not None:
        page = history(anna, "/observers/ops/deliveries", limit=2, **({"cursor": cursor} if cursor else {}))
        assert len(page["deliveries"]) <= 2
        found += (entry["eventId"] for entry in page["deliveries"])
        cursor = page["cursor"]
    assert found == event_ids[::-1]


def test_history_of_event_has_all_observers(anna: ObserverClient) -> None:
    for name in ("ops", "dev", "qa"):
        anna.put(name, "app", config={"to": "anna, ben"})
    first, second = anna.publish(job("create", 1), job("finish", 1))
    for name in ("ops", "dev", "qa"):
        anna.wait_until_settled(name, 4)
    found, cursor = list[tuple[str, str]](), ""
    while cursor is not None:
        page = history(anna, "/deliveries", eventId=second, limit=4, **({"cursor": cursor} if cursor else {}))
        found += ((entry["observer"], entry["address"]) for entry in page["deliveries"])
        assert {entry["eventId"] for entry in page["deliveries"]} == {second}
        cursor = page["cursor"]
    assert found == [(name, user) for name in ("dev", "ops", "qa") for user in ("ben", "anna")]
    event = deliveries(anna, "ops")[-1]["event"]
    by_id = history(anna, "/deliveries", event="{server}.{session}.{instance}".format(**event))
    assert {entry["eventId"] for entry in by_id["deliveries"]} == {first}


def test_history_of_private_observer_is_for_its_user(anna: ObserverClient) -> None:
    ben, eve = anna.colleague("ben"), anna.colleague("eve")
    ben.put("of-ben", "app", scope="private")
    anna.put("ops", "app")
    (event_id,) = anna.publish(job("create", 1, props={"author": "ben"}))
    assert anna.wait_until_settled("ops", 1) == ben.wait_until_settled("of-ben", 1) == {"sent": 1}
    visible = {
        client.member.user: [
            entry["observer"] for entry in history(client, "/deliveries", eventId=event_id)["deliveries"]
        ]
        for client in (anna, ben, eve)
    }
    assert visible == {"anna": ["of-ben", "ops"], "ben": ["of-ben"], "eve": []}
    assert eve.request("GET", "of-ben/deliveries").status_code == 404
    assert ben.request("GET", "ops/deliveries").status_code == 404
    assert len(deliveries(ben, "of-ben")) == 1


def test_history_of_earlier_observer_of_same_name_is_hidden(anna: ObserverClient) -> None:
    """The name may have belonged to another user."""
    ben, eve = anna.colleague("ben"), anna.colleague("eve")
    ben.put("mine", "app", scope="private")
    (event_id,) = anna.publish(job("create", 1, props={"author": "ben"}))
    ben.wait_until_settled("mine", 1)
    assert ben.request("DELETE", "mine").status_code == 200
    eve.put("mine", "app", scope="private")
    assert deliveries(eve, "mine") == history(eve, "/deliveries", eventId=event_id)["deliveries"] == []
    anna.publish(job("create", 2, props={"author": "eve"}))
    eve.wait_until_settled("mine", 2)
    assert [entry["key"] for entry in deliveries(eve, "mine")] == ["/job/2"]


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        ({}, 400),
        ({"event": "1.1.1", "eventId": 1}, 400),
        ({"event": "1.1"}, 400),
        ({"event": "999999.1.1"}, 404),
        ({"eventId": 1}, 404),
        ({"eventId": 2**53 - 1}, 404),
    ],
)
def test_history_of_unknown_event_is_refused(anna: ObserverClient, parameters: Json, status: int) -> None:
    anna.publish(job("create", 1))
    assert anna.member.get("/deliveries", params=parameters).status_code == status


@pytest.mark.parametrize("parameters", [{"limit": 0}, {"limit": 201}, {"cursor": "x"}, {"cursor": "-1"}])
def test_history_with_invalid_parameters_returns_400(anna: ObserverClient, parameters: Json) -> None:
    anna.put("ops", "app")
    assert anna.member.get("/observers/ops/deliveries", params=parameters).status_code == 400
