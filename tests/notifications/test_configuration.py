"""Configuration of observers over HTTP: permissions, and the effect of changes."""

import pytest

from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import ObserverClient, job
from tests.serving import new_organization_name


def get_observer(anna: ObserverClient, name: str) -> Json:
    answer = anna.request("GET", name)
    assert answer.status_code == 200, answer.text
    observer: Json = answer.json()
    return observer


def observer_names(anna: ObserverClient) -> list[str]:
    answer = anna.member.get("/observers")
    assert answer.status_code == 200, answer.text
    return sorted(observer["name"] for observer in answer.json()["observers"])


def test_put_new_observer_returns_its_configuration(anna: ObserverClient) -> None:
    configuration = {
        "channel": "mail",
        "scope": "global",
        "events": "create, finish",
        "nodes": "n1",
        "filter": "event.id > 3",
        "config": {"to": anna.address, "title": "Ops", "more": [1, {"a": None}]},
    }
    put = anna.request("PUT", "ops", configuration)
    assert put.status_code == 201
    nothing = {"waiting": 0, "parked": 0, "sent": 0, "dropped": 0}
    since = put.json()["since"]
    assert put.json() == {"name": "ops", **configuration, "since": since, "deliveries": nothing}
    assert get_observer(anna, "ops") == put.json()
    assert observer_names(anna) == ["ops"]


def test_observers_in_pages_are_ordered_by_name(anna: ObserverClient) -> None:
    for name in ("c", "a", "b"):
        anna.put(name)
    first = anna.member.get("/observers?limit=2").json()["observers"]
    rest = anna.member.get("/observers?limit=2&after=b").json()["observers"]
    assert [observer["name"] for observer in first + rest] == ["a", "b", "c"]


def test_put_same_configuration_keeps_since(anna: ObserverClient) -> None:
    first = anna.put("ops")
    (event_id,) = anna.publish(job("create"))
    again = anna.request("PUT", "ops", anna.configuration())
    assert (again.status_code, again.json()["since"]) == (200, first["since"])
    assert anna.wait_until_settled("ops", 1) == {"sent": 1}
    assert first["since"] < event_id


def test_put_changed_configuration_applies_to_later_events(anna: ObserverClient) -> None:
    since = anna.put("ops", events="create")["since"]
    anna.publish(job("create"))
    anna.wait_until_settled("ops", 1)
    changed = anna.request("PUT", "ops", anna.configuration(events="finish"))
    assert (changed.status_code, changed.json()["since"], changed.json()["events"]) == (200, since, "finish")
    anna.publish(job("create", 2), job("finish", 1))
    assert anna.wait_until_settled("ops", 2) == {"sent": 2}
    assert anna.channels.subjects(anna.address) == ["Created backup on n1 (#1)", "Succeeded backup on n1 (#1): done"]


def test_new_observer_receives_only_later_events(anna: ObserverClient) -> None:
    *_, last = anna.publish(job("create", 1), job("create", 2))
    assert anna.put("ops")["since"] == last
    anna.publish(job("finish", 2))
    assert anna.wait_until_settled("ops", 1) == {"sent": 1}
    assert anna.channels.subjects(anna.address) == ["Succeeded backup on n1 (#2): done"]


def test_delete_then_put_again_starts_at_current_end(anna: ObserverClient) -> None:
    anna.put("ops")
    assert anna.request("DELETE", "ops").json() == {"deleted": "ops"}
    for answer in (anna.request("GET", "ops"), anna.request("DELETE", "ops"), anna.request("GET", "ops/failures")):
        assert answer.status_code == 404
    assert observer_names(anna) == []
    (event_id,) = anna.publish(job("create"))
    assert anna.put("ops")["since"] == event_id


def test_observers_are_separate_per_organization(anna: ObserverClient) -> None:
    anna.put("ops")
    server = anna.member.server
    elsewhere = ObserverClient(server.organization(), anna.channels)
    assert (observer_names(elsewhere), elsewhere.request("GET", "ops").status_code) == ([], 404)
    elsewhere.publish(job("create"))
    anna.publish(job("finish", 1), job("create", 2))
    assert anna.wait_until_settled("ops", 1) == {"sent": 1}
    assert anna.channels.subjects(anna.address) == ["Created backup on n1 (#2)"]


GLOBAL = [("GET", "ops"), ("PUT", "ops"), ("DELETE", "ops"), ("GET", "ops/failures"), ("POST", "ops/retry")]
REQUESTS = [*GLOBAL, ("POST", "ops/replay")]


@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=" ".join)
@pytest.mark.parametrize("scope", ["global", "private"])
def test_non_admin_request_for_foreign_observer_is_refused(
    anna: ObserverClient, scope: str, method: str, path: str
) -> None:
    anna.put("ops", "app", scope=scope)
    ben = anna.colleague("ben", "readers", "publishers")
    before = get_observer(anna, "ops")
    bodies: dict[str, Json] = {"PUT": anna.configuration("app", scope="private"), "POST": {"after": 0}}
    body = {} if path == "ops/retry" else bodies.get(method)
    answer = ben.request(method, path, body)
    assert answer.status_code in (403, 404), answer.text
    assert get_observer(anna, "ops") == before
    assert observer_names(ben) == []


@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=" ".join)
def test_reader_manages_own_private_observer(anna: ObserverClient, method: str, path: str) -> None:
    ben = anna.colleague("ben")
    mine = ben.request("PUT", "ops", ben.configuration("app", scope="private"))
    assert (mine.status_code, mine.json()["user"]) == (201, "ben")
    assert observer_names(ben) == ["ops"]
    bodies: dict[str, Json] = {"ops": ben.configuration("app", scope="private"), "ops/retry": {}}
    body = bodies.get(path, {"after": 0}) if method in ("PUT", "POST") else None
    assert ben.request(method, path, body).status_code == 200


@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=" ".join)
def test_admin_manages_private_observer_of_another_user(anna: ObserverClient, method: str, path: str) -> None:
    ben = anna.colleague("ben")
    ben.put("ops", "app", scope="private")
    bodies: dict[str, Json] = {"ops": anna.configuration("app", scope="private", user="ben"), "ops/retry": {}}
    body = bodies.get(path, {"after": 0}) if method in ("PUT", "POST") else None
    answer = anna.request(method, path, body)
    assert answer.status_code == 200, answer.text
    if method == "PUT":
        assert answer.json()["user"] == "ben"


def test_non_admin_cannot_put_global_or_foreign_observer(anna: ObserverClient) -> None:
    ben = anna.colleague("ben", "readers", "publishers")
    for configuration in (
        ben.configuration("app"),
        ben.configuration("mail"),
        ben.configuration("app", scope="private", user="anna"),
    ):
        assert ben.request("PUT", "mine", configuration).status_code == 403
    ben.put("mine", "app", scope="private")
    assert ben.request("PUT", "mine", ben.configuration("app")).status_code == 403
    assert get_observer(ben, "mine")["scope"] == "private"


def test_publisher_without_read_access_is_forbidden(anna: ObserverClient) -> None:
    pat = anna.colleague("pat", "publishers")
    assert pat.member.get("/observers").status_code == 403
    assert pat.request("PUT", "mine", pat.configuration("app", scope="private")).status_code == 403


def test_put_in_unknown_organization_returns_404(anna: ObserverClient) -> None:
    lost = ObserverClient(anna.member.server.member(new_organization_name()), anna.channels)
    assert lost.request("PUT", "ops", lost.configuration()).status_code == 404


def test_put_beyond_private_observer_quota_is_refused(anna: ObserverClient) -> None:
    ben, eve = anna.colleague("ben"), anna.colleague("eve")
    own = {"channel": "app", "scope": "private"}
    statuses = [ben.request("PUT", f"ben-{number}", own).status_code for number in range(101)]
    assert statuses == [201] * 100 + [400]
    assert ben.request("PUT", "ben-0", {**own, "events": "finish"}).status_code == 200
    assert eve.request("PUT", "eve-0", own).status_code == 201
