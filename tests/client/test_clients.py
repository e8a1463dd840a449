"""Both clients on a real server."""

import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from annals_client import (
    Annals,
    AsyncAnnals,
    BadRequest,
    Binary,
    Condition,
    ConditionFailed,
    Event,
    Id,
    Json,
    KeyReused,
    NewEvent,
    NotAllowed,
    NotFound,
    Unavailable,
    Unexpected,
    asynchronous,
    synchronous,
)
from annals_client.wire import event_json
from tests.client.proxy import Misdeed, Proxy
from tests.client.talking import Talk
from tests.serving import Member, Server

HAPPENED = datetime(2026, 11, 4, 11, 7, 36, 606001, tzinfo=UTC)


@pytest.mark.parametrize(
    ("threaded", "looped"),
    [
        (Annals, AsyncAnnals),
        (synchronous.Queries, asynchronous.AsyncQueries),
        (synchronous.Observers, asynchronous.AsyncObservers),
        (synchronous.Reports, asynchronous.AsyncReports),
    ],
    ids=lambda kind: kind.__name__,
)
def test_both_clients_have_the_same_methods_with_the_same_words(threaded: type, looped: type) -> None:
    assert _methods(threaded) == _methods(looped)
    assert all(_methods(threaded).values())


def test_what_is_published_is_what_is_stored(annals: Annals, member: Member) -> None:
    published = annals.publish(
        [
            NewEvent("job/create", "/job/1", Json({"n": [1, None]}), HAPPENED),
            NewEvent(["photo"], payload=Binary("jpeg", b"\xff\x00")),
            NewEvent("null", payload=Json(None)),
            {"type": ["as", "it", "is"]},
        ]
    )
    stored = member.stored()["events"]
    assert [event_json(event) for event in published.events] == stored
    assert [(event.path, event.payload) for event in published.events] == [
        ("job/create", Json({"n": [1, None]})),
        ("photo", Binary("jpeg", b"\xff\x00")),
        ("null", Json(None)),
        ("as/it/is", None),
    ]
    assert (published.events[0].source_timestamp, published.is_repeated) == (HAPPENED, False)
    assert published.event_id == stored[-1]["eventId"]


def test_a_vocabulary_has_its_own_events_and_may_ignore_some(annals: Annals) -> None:
    events = [
        {"event": "create", "node": "n1", "id": 1, "type": "backup"},
        {"event": "finish", "node": "n1", "id": 2, "type": "backup", "success": "1", "message": "?"},
    ]
    published = annals.publish(events, vocabulary="job")
    assert [event.path for event in published.events] == ["job/create/n1/backup"]
    assert [ignored.place for ignored in published.ignored] == [1]


def test_a_condition_refuses_what_was_decided_too_late(annals: Annals) -> None:
    seat = NewEvent("seat/taken", "/seat/12")
    free = Condition(types=["seat/taken"], keys=["/seat/12"])
    first = annals.publish([seat], condition=free)
    with pytest.raises(ConditionFailed) as refusal:
        annals.publish([seat], condition=free)
    assert (refusal.value.status, refusal.value.event_id) == (409, first.event_id)
    annals.publish([seat], condition=Condition(keys=["/seat/12"], after=first.event_id))


def test_a_key_is_good_for_the_same_events_only(annals: Annals) -> None:
    first = annals.publish([NewEvent("a")], idempotency_key="once")
    again = annals.publish([NewEvent("a")], idempotency_key="once")
    assert (again.events, again.is_repeated) == (first.events, True)
    with pytest.raises(KeyReused):
        annals.publish([NewEvent("b")], idempotency_key="once")


@pytest.mark.parametrize("misdeed", [Misdeed.LOSE_ANSWER, Misdeed.CUT_ANSWER, Misdeed.LOSE_REQUEST, Misdeed.NOT_NOW])
def test_whatever_becomes_of_requests_events_are_written_once(
    misdeed: Misdeed, through: Annals, proxy: Proxy, member: Member
) -> None:
    proxy.planned.extend([misdeed, misdeed, None])
    published = through.publish([NewEvent("a"), NewEvent("b")])
    assert [event_json(event) for event in published.events] == member.stored()["events"]
    assert proxy.seen == [("POST", "/events")] * 3
    assert published.is_repeated == (misdeed is not Misdeed.LOSE_REQUEST)


def test_what_never_answers_is_unavailable_at_the_deadline(talk: Talk, proxy: Proxy, member: Member) -> None:
    proxy.planned.extend([Misdeed.LOSE_REQUEST] * 100)
    with pytest.raises(Unavailable, match="no answer"):
        talk(proxy.url, member.token, deadline_s=0.3).me()


def test_a_page_of_somebody_else_is_unexpected(through: Annals, proxy: Proxy) -> None:
    proxy.planned.append(Misdeed.BABBLE)
    with pytest.raises(Unexpected, match="not JSON"):
        through.me()


def test_refusals_say_what_is_wrong(talk: Talk, annals: Annals, server: Server, member: Member) -> None:
    with pytest.raises(NotAllowed):
        talk(server.url, "forged").me()
    with pytest.raises(NotAllowed, match="organization"):
        talk(server.url, member.token, organization="foreign").system()
    with pytest.raises(NotFound):
        annals.snapshot("job", "4711")
    with pytest.raises(BadRequest) as refusal:
        annals.publish([NewEvent(["a/b"])])
    assert (refusal.value.status, refusal.value.detail) == (400, str(refusal.value))


def test_a_token_may_be_fetched_for_each_request(talk: Talk, server: Server, member: Member) -> None:
    tokens = iter(["forged", member.token])
    annals = talk(server.url, lambda: next(tokens))
    with pytest.raises(NotAllowed):
        annals.me()
    assert annals.me()["user"] == "anna"


def test_the_organization_can_be_named(talk: Talk, server: Server) -> None:
    first, second = server.organization(), server.organization()
    both = server.member(first.organization, second.organization)
    talk(server.url, both.token, organization=second.organization).publish([NewEvent("there")])
    assert [event["type"] for event in second.stored()["events"]] == [["there"]]


def test_queries_page_on_by_themselves(annals: Annals, member: Member) -> None:
    stored = [event["eventId"] for _ in range(3) for event in member.publish("a/x", "a/y", "b")]
    assert _ids(annals.query.server(page=2)) == stored
    assert _ids(annals.query.timeseries(page=2)) == sorted(stored, reverse=True)
    assert (
        _ids(annals.query.timeseries(["a/*"], order="ascending", page=2, max_results=5))
        == [event_id for place, event_id in enumerate(stored) if place % 3 < 2][:5]
    )
    assert _ids(annals.query.server(max_results=4, page=3)) == stored[:4]
    assert [event.path for event in sorted(annals.query.latest(["a/*"]), key=lambda e: e.event_id)] == ["a/x", "a/y"]


def test_queries_take_times_and_ids(annals: Annals, member: Member) -> None:
    member.publish("a", "b")
    now = datetime.now(UTC)
    assert list(annals.query.timeseries(t_from=now + timedelta(hours=1))) == []
    assert len(list(annals.query.timeseries(t_from=now - timedelta(hours=1), t_to=now + timedelta(hours=1)))) == 2
    first = next(iter(annals.query.server()))
    assert [event.path for event in annals.query.server(after=first.id)] == ["b"]
    assert str(first.id) == f"{first.id.server}.1.1"
    assert first.id == Id(first.id.server, 1, 1)


def test_a_snapshot_is_where_following_begins(annals: Annals) -> None:
    annals.publish([{"TYPE": "OrderAdded", "key": "/a b/chain,7", "nodeId": "A"}], vocabulary="scheduler")
    snapshot = annals.snapshot("order", "/a b/chain,7")
    annals.publish([{"TYPE": "OrderStarted", "key": "/a b/chain,7"}], vocabulary="scheduler")
    assert [one["nodeId"] for one in snapshot.objects] == ["A"]
    changes = annals.follow(types=["scheduler/*"], after=snapshot.event_id, to_now=True)
    assert [event.type[-1] for event in changes] == ["OrderStarted"]


def test_lists_are_searched_and_counted(annals: Annals) -> None:
    jobs = [{"event": "create", "node": "n1", "id": n, "type": "backup"} for n in (1, 2, 3)]
    annals.publish(jobs, vocabulary="job")
    listed = annals.snapshot("job", brief=True, search="backup", limit=2)
    assert [one["path"] for one in listed.objects] == ["/3", "/2"]
    assert (sum(listed.counts.values()), listed.more_follows) == (3, True)
    assert len(annals.snapshot("job").objects) == 3


def test_observers_are_configured_replayed_and_deleted(annals: Annals, member: Member) -> None:
    member.publish("a/x", "a/y", "b")
    made = annals.observers.put("ops", {"channel": "app", "types": ["a/*"], "config": {"to": "anna"}})
    assert [one["name"] for one in annals.observers.list()] == ["ops"]
    assert annals.observers.get("ops")["since"] == made["since"]
    assert [(part.deliveries, part.is_done) for part in annals.observers.replay("ops", after=0)] == [(2, True)]
    assert list(annals.observers.replay("ops", since=datetime.now(UTC) + timedelta(hours=1)))[-1].deliveries == 0
    assert list(annals.observers.failures("ops")) == []
    assert annals.observers.retry("ops") == 0
    annals.observers.delete("ops")
    assert annals.observers.list() == ()


def test_a_replay_whose_answer_is_lost_tells_nobody_twice(through: Annals, proxy: Proxy, member: Member) -> None:
    member.publish("a/x")
    through.observers.put("ops", {"channel": "app", "types": ["a/*"], "config": {"to": "anna"}})
    proxy.planned.append(Misdeed.LOSE_ANSWER)
    assert list(through.observers.replay("ops", after=0))[-1].is_done
    told = member.get("/users/anna/inbox?timeout=10s").json()["eventSnapshots"]
    assert len(told) == 1


def test_a_delete_whose_answer_is_lost_has_deleted(through: Annals, proxy: Proxy) -> None:
    through.observers.put("ops", {"channel": "app", "config": {"to": "anna"}})
    proxy.planned.append(Misdeed.LOSE_ANSWER)
    through.observers.delete("ops")
    with pytest.raises(NotFound):
        through.observers.delete("ops")


def test_one_text_is_a_list_of_one_and_no_list_selects_nothing(annals: Annals, member: Member) -> None:
    member.publish("taken")
    with pytest.raises(ConditionFailed):
        annals.publish([NewEvent("")], condition=Condition(types="taken"))
    assert annals.publish([NewEvent("")]).events[0].type == ()
    with pytest.raises(ValueError, match="types is empty"):
        annals.query.latest([])


def test_methods_tell_their_parameters() -> None:
    assert "condition" in inspect.signature(Annals("http://nowhere", "").publish).parameters
    assert "manners" not in inspect.signature(AsyncAnnals("http://nowhere", "").follow).parameters


def test_reports_the_system_and_oneself_can_be_asked_for(annals: Annals, member: Member) -> None:
    published = member.publish("report/ready/report")
    assert [report["name"] for report in annals.reports.list()] == ["report"]
    with pytest.raises(NotFound):
        annals.reports.link("nonesuch")
    assert annals.system()["head"]["eventId"] == published[-1]["eventId"]
    assert annals.me()["organizations"] == [member.organization]


def _ids(events: Any) -> list[int]:
    found: list[Event] = list(events)
    return [event.event_id for event in found]


def _methods(kind: type) -> dict[str, str | None]:
    return {name: value.__doc__ for name, value in vars(kind).items() if not name.startswith("_")}
