"""Observers over HTTP: who may have which, and what a configuration means."""

import pytest

from tests.notifications.narration import Teller, job
from tests.notifications.outside import Json
from tests.serving import new_name


def shown(anna: Teller, name: str) -> Json:
    answer = anna.ask("GET", name)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def names(anna: Teller) -> list[str]:
    answer = anna.member.get("/observers")
    assert answer.status_code == 200, answer.text
    return sorted(one["name"] for one in answer.json()["observers"])


def test_an_observer_is_shown_as_it_was_put(anna: Teller) -> None:
    configuration = {
        "channel": "mail",
        "scope": "global",
        "events": "create, finish",
        "nodes": "n1",
        "filter": "event.id > 3",
        "config": {"to": anna.address, "title": "Ops", "more": [1, {"a": None}]},
    }
    put = anna.ask("PUT", "ops", configuration)
    assert put.status_code == 201
    nothing = {"waiting": 0, "parked": 0, "sent": 0, "dropped": 0}
    since = put.json()["since"]
    assert put.json() == {"name": "ops", **configuration, "since": since, "deliveries": nothing}
    assert shown(anna, "ops") == put.json()
    assert names(anna) == ["ops"]


def test_to_put_the_same_again_changes_nothing(anna: Teller) -> None:
    first = anna.put("ops")
    (event_id,) = anna.publish(job("create"))
    again = anna.ask("PUT", "ops", anna.configuration())
    assert (again.status_code, again.json()["since"]) == (200, first["since"])
    assert anna.settled("ops", 1) == {"sent": 1}
    assert first["since"] < event_id


def test_a_change_counts_from_then_on_and_keeps_the_beginning(anna: Teller) -> None:
    since = anna.put("ops", events="create")["since"]
    anna.publish(job("create"))
    anna.settled("ops", 1)
    changed = anna.ask("PUT", "ops", anna.configuration(events="finish"))
    assert (changed.status_code, changed.json()["since"], changed.json()["events"]) == (200, since, "finish")
    anna.publish(job("create", 2), job("finish", 1))
    assert anna.settled("ops", 2) == {"sent": 2}
    assert anna.world.subjects(anna.address) == ["Job created", "Job finished"]


def test_a_new_observer_sees_only_what_comes_after_it(anna: Teller) -> None:
    *_, last = anna.publish(job("create", 1), job("create", 2))
    assert anna.put("ops")["since"] == last
    anna.publish(job("finish", 2))
    assert anna.settled("ops", 1) == {"sent": 1}
    assert anna.world.subjects(anna.address) == ["Job finished"]


def test_who_was_deleted_is_gone_and_who_comes_again_begins_anew(anna: Teller) -> None:
    anna.put("ops")
    assert anna.ask("DELETE", "ops").json() == {"deleted": "ops"}
    for answer in (anna.ask("GET", "ops"), anna.ask("DELETE", "ops"), anna.ask("GET", "ops/failures")):
        assert answer.status_code == 404
    assert names(anna) == []
    (event_id,) = anna.publish(job("create"))
    assert anna.put("ops")["since"] == event_id


def test_observers_of_other_organizations_are_others(anna: Teller) -> None:
    anna.put("ops")
    server = anna.member.server
    elsewhere = Teller(server.organization(), anna.world)
    assert (names(elsewhere), elsewhere.ask("GET", "ops").status_code) == ([], 404)
    elsewhere.publish(job("create"))
    anna.publish(job("finish", 1), job("create", 2))
    assert anna.settled("ops", 1) == {"sent": 1}
    assert anna.world.subjects(anna.address) == ["Job created"]


GLOBAL = [("GET", "ops"), ("PUT", "ops"), ("DELETE", "ops"), ("GET", "ops/failures"), ("POST", "ops/retry")]
REQUESTS = [*GLOBAL, ("POST", "ops/replay")]


@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=" ".join)
@pytest.mark.parametrize("scope", ["global", "private"])
def test_who_is_no_admin_reaches_only_their_own(anna: Teller, scope: str, method: str, path: str) -> None:
    anna.put("ops", "app", scope=scope)
    ben = anna.other("ben", "readers", "publishers")
    before = shown(anna, "ops")
    bodies: dict[str, Json] = {"PUT": anna.configuration("app", scope="private"), "POST": {"after": 0}}
    body = {} if path == "ops/retry" else bodies.get(method)
    answer = ben.ask(method, path, body)
    assert answer.status_code in (403, 404), answer.text
    assert shown(anna, "ops") == before
    assert names(ben) == []


@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=" ".join)
def test_everybody_who_may_read_rules_their_own(anna: Teller, method: str, path: str) -> None:
    ben = anna.other("ben")
    mine = ben.ask("PUT", "ops", ben.configuration("app", scope="private"))
    assert (mine.status_code, mine.json()["user"]) == (201, "ben")
    assert names(ben) == ["ops"]
    bodies: dict[str, Json] = {"ops": ben.configuration("app", scope="private"), "ops/retry": {}}
    body = bodies.get(path, {"after": 0}) if method in ("PUT", "POST") else None
    assert ben.ask(method, path, body).status_code == 200


@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=" ".join)
def test_admins_rule_all_of_their_organization(anna: Teller, method: str, path: str) -> None:
    ben = anna.other("ben")
    ben.put("ops", "app", scope="private")
    bodies: dict[str, Json] = {"ops": anna.configuration("app", scope="private", user="ben"), "ops/retry": {}}
    body = bodies.get(path, {"after": 0}) if method in ("PUT", "POST") else None
    answer = anna.ask(method, path, body)
    assert answer.status_code == 200, answer.text
    if method == "PUT":
        assert answer.json()["user"] == "ben"


def test_only_admins_speak_for_all_or_for_others(anna: Teller) -> None:
    ben = anna.other("ben", "readers", "publishers")
    for configuration in (
        ben.configuration("app"),
        ben.configuration("mail"),
        ben.configuration("app", scope="private", user="anna"),
    ):
        assert ben.ask("PUT", "mine", configuration).status_code == 403
    ben.put("mine", "app", scope="private")
    assert ben.ask("PUT", "mine", ben.configuration("app")).status_code == 403
    assert shown(ben, "mine")["scope"] == "private"


def test_who_may_not_read_has_no_observers(anna: Teller) -> None:
    pat = anna.other("pat", "publishers")
    assert pat.member.get("/observers").status_code == 403
    assert pat.ask("PUT", "mine", pat.configuration("app", scope="private")).status_code == 403


def test_an_organization_that_is_not_there_has_no_observers(anna: Teller) -> None:
    lost = Teller(anna.member.server.member(new_name()), anna.world)
    assert lost.ask("PUT", "ops", lost.configuration()).status_code == 404


def test_a_user_may_have_many_observers_of_their_own_but_not_endlessly_many(anna: Teller) -> None:
    ben, eve = anna.other("ben"), anna.other("eve")
    own = {"channel": "app", "scope": "private"}
    statuses = [ben.ask("PUT", f"ben-{number}", own).status_code for number in range(101)]
    assert statuses == [201] * 100 + [400]
    assert ben.ask("PUT", "ben-0", {**own, "events": "finish"}).status_code == 200
    assert eve.ask("PUT", "eve-0", own).status_code == 201
