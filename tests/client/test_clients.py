"""Both clients with a real server."""

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
    Item,
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
from tests.client.both_clients import ClientFactory
from tests.fault_proxy import HttpFault, ScriptedProxy
from tests.serving import Member, Server

SOURCE_TIME = datetime(2026, 11, 4, 11, 7, 36, 606001, tzinfo=UTC)


@pytest.mark.parametrize(
    ("sync_class", "async_class"),
    [
        (Annals, AsyncAnnals),
        (synchronous.Queries, asynchronous.AsyncQueries),
        (synchronous.Observers, asynchronous.AsyncObservers),
        (synchronous.Alerts, asynchronous.AsyncAlerts),
        (synchronous.Reports, asynchronous.AsyncReports),
    ],
    ids=lambda kind: kind.__name__,
)
def test_clients_have_same_methods_and_docstrings(sync_class: type, async_class: type) -> None:
    assert _methods(sync_class) == _methods(async_class)
    assert all(_methods(sync_class).values())


def test_publish_stores_events_as_returned(annals: Annals, member: Member) -> None:
    published = annals.publish(
        [
            NewEvent("job/create", "/job/1", Json({"n": [1, None]}), SOURCE_TIME),
            NewEvent(["photo"], payload=Binary("jpeg", b"\xff\x00")),
            NewEvent("null", payload=Json(None)),
            {"type": ["as", "it", "is"]},
            NewEvent("tagged", tags=["b", "a", "b"]),
        ]
    )
    stored = member.read_log()["events"]
    assert [event_json(event) for event in published.events] == stored
    assert [(event.path, event.payload) for event in published.events] == [
        ("job/create", Json({"n": [1, None]})),
        ("photo", Binary("jpeg", b"\xff\x00")),
        ("null", Json(None)),
        ("as/it/is", None),
        ("tagged", None),
    ]
    assert [event.tags for event in published.events] == [(), (), (), (), ("b", "a")]
    assert (published.events[0].source_timestamp, published.is_repeated) == (SOURCE_TIME, False)
    assert published.event_id == stored[-1]["eventId"]


def test_publish_and_select_empty_subtypes(annals: Annals) -> None:
    annals.publish([NewEvent("a//b"), NewEvent("/"), NewEvent(""), NewEvent([""]), NewEvent("a/b")])
    selected = [annals.newest(10, types=text).events for text in ("a//b", "/", "", "?")]
    assert [[event.type for event in events] for events in selected] == [[("a", "", "b")], [("", "")], [()], [("",)]]
    assert [event.path for event in annals.query.latest("a//*")] == ["a//b"]


def test_publish_vocabulary_reports_ignored_events(annals: Annals) -> None:
    events = [
        {"event": "create", "node": "n1", "id": 1, "type": "backup"},
        {"event": "finish", "node": "n1", "id": 2, "type": "backup", "success": "1", "message": "?"},
    ]
    published = annals.publish(events, vocabulary="job")
    assert [event.path for event in published.events] == ["job/create/n1/backup"]
    assert [ignored.place for ignored in published.ignored] == [1]


def test_publish_job_without_id_returns_its_number(annals: Annals) -> None:
    new_job = {"event": "create", "node": "n1", "type": "backup"}
    published = annals.publish([{**new_job, "id": 7}, new_job, new_job], vocabulary="job")
    assert (published.ids, annals.publish([{**new_job, "id": 1}], vocabulary="job").ids) == ((8, 9), ())


def test_job_types_have_runs_and_statistics(annals: Annals) -> None:
    names = [f"type {number:03}" for number in range(120)]
    jobs = [{"event": "create", "node": "n1", "type": name} for name in names]
    first, *_ = annals.publish(jobs, vocabulary="job").ids
    end = {"event": "finish", "node": "n1", "id": first, "type": names[0], "success": "0", "message": "no space"}
    annals.publish([end], vocabulary="job")
    assert [job_type["type"] for job_type in annals.job_types()] == names
    (failed,) = annals.job_types(result="failure")
    assert (failed["type"], failed["successRate"], failed["lastRun"]["error"]) == (names[0], 0.0, "no space")
    assert [run["id"] for run in annals.job_type(names[0])["runs"]] == [first]
    assert [job_type["type"] for job_type in annals.job_types(search="type 00", state="running")] == names[1:10]


def test_publish_matching_condition_raises_condition_failed(annals: Annals) -> None:
    seat = NewEvent("seat/taken", "/seat/12")
    free = Condition(types=["seat/taken"], keys=["/seat/12"])
    first = annals.publish([seat], condition=free)
    with pytest.raises(ConditionFailed) as refusal:
        annals.publish([seat], condition=free)
    assert (refusal.value.status, refusal.value.event_id) == (409, first.event_id)
    annals.publish([seat], condition=Condition(keys=["/seat/12"], after=first.event_id))


SEAT = NewEvent("seat/taken", tags=["show:1", "seat:12"])
ITEMS = [Item(types=["seat/taken"], tags=["show:1", "seat:12"]), Item(types=["show/ended"], tags=["show:1"])]


@pytest.mark.parametrize("condition", [Condition(tags=["seat:12", "show:1"]), Condition(items=ITEMS)])
@pytest.mark.parametrize(
    ("event", "is_refused"),
    [(SEAT, True), (NewEvent("seat/taken", tags=["show:1"]), False), (NewEvent("seat/freed", tags="seat:12"), False)],
)
def test_publish_condition_by_tags(annals: Annals, condition: Condition, event: NewEvent, is_refused: bool) -> None:
    annals.publish([event])
    if is_refused:
        with pytest.raises(ConditionFailed):
            annals.publish([SEAT], condition=condition)
    else:
        annals.publish([SEAT], condition=condition)


def test_follow_selects_by_tags_and_items(annals: Annals) -> None:
    annals.publish([SEAT, NewEvent("show/ended", tags=["show:1"]), NewEvent("note", "/a"), NewEvent("note", "/b")])
    items = [Item(tags=["seat:12"]), Item(["note"], ["/b"])]
    followed = [
        annals.follow(tags=["show:1"], to_now=True),
        annals.follow(tags="seat:12", to_now=True),
        annals.follow(items=items, to_now=True),
        annals.follow(items=[], to_now=True),
    ]
    assert [[event.event_id % 4 for event in events] for events in followed] == [
        [event.event_id % 4 for event in events]
        for published in [annals.newest(10).events]
        for events in (published[:2], published[:1], (published[0], published[3]), published)
    ]
    assert [event.path for event in annals.newest(1, tags=["show:1"]).events] == ["show/ended"]
    with pytest.raises(ValueError, match="give either items, or types, keys and tags"):
        next(annals.follow(items=items, types=["a"]))


def test_newest_returns_all_large_events_and_continues(annals: Annals) -> None:
    events = [annals.publish([NewEvent("a", payload=Json("x" * 300_000))]).events[0] for _ in range(20)]
    newest = annals.newest(18)
    assert (newest.events, newest.more_follows, newest.event_id) == (tuple(events[2:]), True, events[-1].event_id)
    rest = annals.newest(18, before=newest.events[0].event_id)
    assert (rest.events, rest.more_follows) == (tuple(events[:2]), False)
    assert (annals.newest(0).events, annals.newest(0).event_id) == ((), events[-1].event_id)


def test_publish_reused_key_with_other_events_is_refused(annals: Annals) -> None:
    first = annals.publish([NewEvent("a")], idempotency_key="once")
    again = annals.publish([NewEvent("a")], idempotency_key="once")
    assert (again.events, again.is_repeated) == (first.events, True)
    with pytest.raises(KeyReused):
        annals.publish([NewEvent("b")], idempotency_key="once")


@pytest.mark.parametrize(
    "fault", [HttpFault.LOSE_RESPONSE, HttpFault.CUT_RESPONSE, HttpFault.LOSE_REQUEST, HttpFault.UNAVAILABLE]
)
def test_publish_with_faults_writes_once(
    fault: HttpFault, proxied_annals: Annals, proxy: ScriptedProxy, member: Member
) -> None:
    proxy.planned.extend([fault, fault, None])
    published = proxied_annals.publish([NewEvent("a"), NewEvent("b")])
    assert [event_json(event) for event in published.events] == member.read_log()["events"]
    assert proxy.requests == [("POST", "/events")] * 3
    assert published.is_repeated == (fault is not HttpFault.LOSE_REQUEST)


def test_call_without_response_raises_unavailable(
    create_client: ClientFactory, proxy: ScriptedProxy, member: Member
) -> None:
    proxy.planned.extend([HttpFault.LOSE_REQUEST] * 100)
    with pytest.raises(Unavailable, match="no response"):
        create_client(proxy.url, member.token, deadline_s=0.3).me()


def test_call_foreign_page_raises_unexpected(proxied_annals: Annals, proxy: ScriptedProxy) -> None:
    proxy.planned.append(HttpFault.FOREIGN_PAGE)
    with pytest.raises(Unexpected, match="not JSON"):
        proxied_annals.me()


def test_refusals_have_status_and_detail(
    create_client: ClientFactory, annals: Annals, server: Server, member: Member
) -> None:
    with pytest.raises(NotAllowed):
        create_client(server.url, "forged").me()
    with pytest.raises(NotAllowed, match="organization"):
        create_client(server.url, member.token, organization="foreign").system()
    with pytest.raises(NotFound):
        annals.snapshot("job", "4711")
    with pytest.raises(BadRequest) as refusal:
        annals.publish([NewEvent(["a/b"])])
    assert (refusal.value.status, refusal.value.detail) == (400, str(refusal.value))


def test_token_function_is_called_per_request(create_client: ClientFactory, server: Server, member: Member) -> None:
    tokens = iter(["forged", member.token])
    annals = create_client(server.url, lambda: next(tokens))
    with pytest.raises(NotAllowed):
        annals.me()
    assert annals.me()["user"] == "anna"


def test_organization_option_selects_organization(create_client: ClientFactory, server: Server) -> None:
    first, second = server.organization(), server.organization()
    both = server.member(first.organization, second.organization)
    create_client(server.url, both.token, organization=second.organization).publish([NewEvent("there")])
    assert [event["type"] for event in second.read_log()["events"]] == [["there"]]


def test_queries_fetch_all_pages(annals: Annals, member: Member) -> None:
    stored = [event["eventId"] for _ in range(3) for event in member.publish("a/x", "a/y", "b")]
    assert _ids(annals.query.server(page=2)) == stored
    assert _ids(annals.query.timeseries(page=2)) == sorted(stored, reverse=True)
    assert (
        _ids(annals.query.timeseries(["a/*"], order="ascending", page=2, max_results=5))
        == [event_id for place, event_id in enumerate(stored) if place % 3 < 2][:5]
    )
    assert _ids(annals.query.server(max_results=4, page=3)) == stored[:4]
    assert [event.path for event in sorted(annals.query.latest(["a/*"]), key=lambda e: e.event_id)] == ["a/x", "a/y"]


def test_queries_filter_by_times_and_ids(annals: Annals, member: Member) -> None:
    member.publish("a", "b")
    now = datetime.now(UTC)
    assert list(annals.query.timeseries(t_from=now + timedelta(hours=1))) == []
    assert len(list(annals.query.timeseries(t_from=now - timedelta(hours=1), t_to=now + timedelta(hours=1)))) == 2
    first = next(iter(annals.query.server()))
    assert [event.path for event in annals.query.server(after=first.id)] == ["b"]
    assert str(first.id) == f"{first.id.server}.1.1"
    assert first.id == Id(first.id.server, 1, 1)


def test_snapshot_event_id_continues_with_follow(annals: Annals) -> None:
    annals.publish([{"TYPE": "OrderAdded", "key": "/a b/chain,7", "nodeId": "A"}], vocabulary="scheduler")
    snapshot = annals.snapshot("order", "/a b/chain,7")
    annals.publish([{"TYPE": "OrderStarted", "key": "/a b/chain,7"}], vocabulary="scheduler")
    assert [order["nodeId"] for order in snapshot.objects] == ["A"]
    changes = annals.follow(types=["scheduler/*"], after=snapshot.event_id, to_now=True)
    assert [event.type[-1] for event in changes] == ["OrderStarted"]


def test_snapshot_brief_searches_and_counts(annals: Annals) -> None:
    jobs = [{"event": "create", "node": "n1", "id": n, "type": "backup"} for n in (1, 2, 3)]
    annals.publish(jobs, vocabulary="job")
    listed = annals.snapshot("job", brief=True, search="backup", limit=2)
    assert [job["path"] for job in listed.objects] == ["/3", "/2"]
    assert (sum(listed.counts.values()), listed.more_follows) == (3, True)
    assert len(annals.snapshot("job").objects) == 3
    limited = annals.snapshot("job", limit=2)
    assert (len(limited.objects), limited.more_follows) == (2, True)


def test_observers_put_replay_delete(annals: Annals, member: Member) -> None:
    member.publish("a/x", "a/y", "b")
    created = annals.observers.put("ops", {"channel": "app", "types": ["a/*"], "config": {"to": "anna"}})
    assert [observer["name"] for observer in annals.observers.list()] == ["ops"]
    assert annals.observers.get("ops")["since"] == created["since"]
    assert [(part.deliveries, part.is_done) for part in annals.observers.replay("ops", after=0)] == [(2, True)]
    assert list(annals.observers.replay("ops", since=datetime.now(UTC) + timedelta(hours=1)))[-1].deliveries == 0
    assert list(annals.observers.failures("ops")) == []
    listed = list(annals.observers.deliveries("ops", page=1))
    assert [(entry["channel"], entry["address"], entry["type"]) for entry in listed] == [
        ("app", "anna", ["a", "y"]),
        ("app", "anna", ["a", "x"]),
    ]
    assert list(annals.observers.deliveries_of(listed[0]["eventId"] or 0)) == listed[:1]
    assert list(annals.observers.deliveries_of(Id(**listed[1]["event"]))) == listed[1:]
    assert annals.observers.retry("ops") == 0
    annals.observers.delete("ops")
    assert annals.observers.list() == ()


def test_inbox_newest_unread_and_mark_read(annals: Annals, member: Member) -> None:
    annals.observers.put("ops", {"channel": "app", "types": ["a/*"], "config": {"to": "anna"}})
    member.publish("a/x", "a/y")
    member.get("/users/anna/inbox?timeout=10s&delay=2s")
    newest = annals.inbox.newest("anna", limit=1)
    assert [message["read"] for message in newest] == [False]
    assert annals.inbox.mark_read("anna", newest[0]["eventId"])["unread"] == 0
    assert annals.inbox.unread("anna") == {"readUpTo": newest[0]["eventId"], "unread": 0, "moreFollows": False}


def test_observer_is_snoozed_and_woken(annals: Annals) -> None:
    annals.observers.put("ops", {"channel": "app", "config": {"to": "anna"}, "when": "change"})
    until = datetime(2099, 1, 1, tzinfo=UTC)
    assert annals.observers.snooze("ops", until)["snoozedUntil"] == "2099-01-01T00:00:00.000000Z"
    assert "snoozedUntil" not in annals.observers.snooze("ops", None)


def test_silences_and_acknowledgements_are_listed(annals: Annals) -> None:
    until = datetime(2099, 1, 1, tzinfo=UTC)
    first = annals.alerts.silence("backup", until=until, comment="new disks")
    second = annals.alerts.silence(pattern="job/?/n1/*", until=until)
    assert annals.alerts.silences() == (second, first)
    annals.alerts.end_silence(first["id"])
    with pytest.raises(NotFound):
        annals.alerts.end_silence(first["id"])
    acknowledged = annals.alerts.acknowledge("backup", comment="I am on it")
    assert (annals.alerts.silences(), annals.alerts.acknowledgements()) == ((second,), (acknowledged,))


def test_expectations_put_list_delete(annals: Annals) -> None:
    for number in range(101):
        annals.expectations.put(f"nightly-{number:03}", {"type": "backup", "every": "1h"})
    assert [one["name"][-3:] for one in annals.expectations.list()] == [f"{number:03}" for number in range(101)]
    assert annals.expectations.get("nightly-000")["state"] == "new"
    annals.expectations.delete("nightly-000")
    with pytest.raises(NotFound):
        annals.expectations.get("nightly-000")


def test_replay_lost_response_delivers_once(proxied_annals: Annals, proxy: ScriptedProxy, member: Member) -> None:
    member.publish("a/x")
    proxied_annals.observers.put("ops", {"channel": "app", "types": ["a/*"], "config": {"to": "anna"}})
    proxy.planned.append(HttpFault.LOSE_RESPONSE)
    assert list(proxied_annals.observers.replay("ops", after=0))[-1].is_done
    notifications = member.get("/users/anna/inbox?timeout=10s").json()["eventSnapshots"]
    assert len(notifications) == 1


def test_delete_lost_response_succeeds(proxied_annals: Annals, proxy: ScriptedProxy) -> None:
    proxied_annals.observers.put("ops", {"channel": "app", "config": {"to": "anna"}})
    proxy.planned.append(HttpFault.LOSE_RESPONSE)
    proxied_annals.observers.delete("ops")
    with pytest.raises(NotFound):
        proxied_annals.observers.delete("ops")


def test_filters_single_string_and_empty_list(annals: Annals, member: Member) -> None:
    member.publish("taken")
    with pytest.raises(ConditionFailed):
        annals.publish([NewEvent("")], condition=Condition(types="taken"))
    assert annals.publish([NewEvent("")]).events[0].type == ()
    with pytest.raises(ValueError, match="types is empty"):
        annals.query.latest([])


def test_methods_have_signatures_of_calls() -> None:
    assert "condition" in inspect.signature(Annals("http://nowhere", "").publish).parameters
    assert "policy" not in inspect.signature(AsyncAnnals("http://nowhere", "").follow).parameters


def test_reports_system_and_me(annals: Annals, member: Member) -> None:
    published = member.publish("report/ready/report")
    assert [report["name"] for report in annals.reports.list()] == ["report"]
    with pytest.raises(NotFound):
        annals.reports.link("nonesuch")
    assert annals.system()["head"]["eventId"] == published[-1]["eventId"]
    assert annals.me()["organizations"] == [member.organization]


def _ids(events: Any) -> list[int]:
    typed: list[Event] = list(events)
    return [event.event_id for event in typed]


def _methods(kind: type) -> dict[str, str | None]:
    return {name: value.__doc__ for name, value in vars(kind).items() if not name.startswith("_")}
