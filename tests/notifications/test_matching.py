"""Matching of events and observers: type patterns, AnyJob's lists, and events addressed to users."""

import pytest

from chalicelib.domain.notifications.observer import Configuration
from tests.notifications.fake_channels import Json
from tests.notifications.observer_client import ObserverClient, job
from tests.notifications.sites import Site

EVENTS = [
    job("create", 1),
    job("create", 2, node="n2", type="deploy"),
    job("redirect", 1),
    job("finish", 1),
    job("finish", 2, node="n2", type="deploy"),
    job("createJobSet", 7),
    job("finishJobSet", 8, node="n2"),
]
ALL = list(range(len(EVENTS)))
LISTS: dict[str, tuple[Json, list[int]]] = {
    "no lists": ({}, ALL),
    "all": ({"events": "all"}, ALL),
    "all among others": ({"events": "create, all"}, ALL),
    "an empty list": ({"events": ""}, ALL),
    "nothing but commas": ({"events": " , ,", "nodes": " "}, ALL),
    "one event": ({"events": "create"}, [0, 1]),
    "events with spaces": ({"events": " create ,  finish\t,redirect "}, [0, 1, 2, 3, 4]),
    "events of sets": ({"events": "createJobSet,finishJobSet"}, [5, 6]),
    "one node": ({"nodes": "n2"}, [1, 4, 6]),
    "nodes with spaces": ({"nodes": " n1 , n2,n3 "}, ALL),
    "an unknown node": ({"nodes": "n"}, []),
    "events and nodes": ({"events": "finish,finishJobSet", "nodes": "n2"}, [4, 6]),
    "all nodes": ({"nodes": "all"}, ALL),
    "all nodes among others": ({"nodes": "n2, all"}, ALL),
    "all events of all nodes": ({"events": "all", "nodes": "all"}, ALL),
    "one event of all nodes": ({"events": "finish", "nodes": " all "}, [3, 4]),
    "all of a node": ({"events": "all", "nodes": "n1"}, [0, 2, 3, 5]),
    "a pattern": ({"types": ["job/finish/*"]}, [3, 4]),
    "a pattern with any subtype": ({"types": ["job/?/n2/deploy"]}, [1, 4]),
    "patterns that overlap": ({"types": ["job/*", "job/create/*", "*"]}, ALL),
    "a pattern that matches nothing": ({"types": ["job"]}, []),
    "no patterns": ({"types": []}, []),
}


@pytest.mark.parametrize("name", LISTS)
def test_matcher_applies_types_events_and_nodes(site: Site, name: str) -> None:
    configuration, expected = LISTS[name]
    site.put("ops", **configuration)
    events = site.publish(*EVENTS)
    site.observe()
    matched = [waiting.delivery.event for waiting in site.waiting("ops")]
    assert matched == [events[place].id for place in expected]


def test_core_event_matches_only_observers_without_lists(anna: ObserverClient) -> None:
    anna.put("every", config={"to": f"every.{anna.address}"})
    anna.put("jobs", events="all")
    anna.member.publish("disk/full")
    anna.publish(job("create"))
    assert (anna.wait_until_settled("every", 2), anna.wait_until_settled("jobs", 1)) == ({"sent": 2}, {"sent": 1})
    assert anna.channels.subjects(f"every.{anna.address}") == ["disk/full", "Created backup on n1 (#1)"]
    assert anna.channels.subjects(anna.address) == ["Created backup on n1 (#1)"]


PRIVATE: dict[str, tuple[Json, list[str]]] = {
    "nothing": ({}, []),
    "its own name": ({"observer": "of-anna"}, ["of-anna"]),
    "its user as author": ({"author": "anna"}, ["of-anna", "of-anna-too"]),
    "another author": ({"author": "ben"}, ["of-ben"]),
    "a name and another's author": ({"observer": "of-anna", "author": "ben"}, ["of-anna", "of-ben"]),
    "an unknown name": ({"observer": "of-nobody"}, []),
    "an author in another case": ({"author": "Anna"}, []),
    "the name of a global observer": ({"observer": "all"}, []),
}


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("event", ["create", "createJobSet", "redirect"])
def test_private_observer_matches_only_addressed_events(site: Site, event: str, name: str) -> None:
    props, expected = PRIVATE[name]
    site.put("all")
    for own, user in (("of-anna", "anna"), ("of-anna-too", "anna"), ("of-ben", "ben")):
        site.put(own, "app", scope="private", user=user, config={})
    if event == "redirect":
        site.publish(job("create", 1, props=props))
        (published,) = site.publish(job("redirect", 1))
    else:
        (published,) = site.publish(job(event, 1, props=props))
    site.observe()
    private = [own for own in ("of-anna", "of-anna-too", "of-ben") if published.id in _events(site, own)]
    assert private == expected
    assert published.id in _events(site, "all")


def test_job_settings_do_not_address_private_observers(site: Site) -> None:
    site.configure_jobs({"backup": {"observer": "of-anna", "author": "anna"}})
    site.put("of-anna", "app", scope="private", user="anna", config={})
    site.publish(job("create"))
    site.observe()
    assert site.waiting("of-anna") == []


def test_redirect_of_unknown_job_matches_no_private_observer(site: Site) -> None:
    site.put("of-anna", "app", scope="private", user="anna", config={})
    site.publish(job("redirect", 99))
    site.observe()
    assert site.waiting("of-anna") == []


def test_redirect_with_own_props_needs_no_job(site: Site) -> None:
    site.put("of-anna", "app", scope="private", user="anna", config={})
    site.publish(job("redirect", 99, type="backup", props={"author": "anna"}))
    site.observe()
    assert len(site.waiting("of-anna")) == 1


def test_matcher_creates_one_delivery_per_address(site: Site) -> None:
    site.put("ops", config={"to": "a@example.org, b@example.org,c@example.org"})
    (event,) = site.publish(job("create"))
    site.observe()
    deliveries = [(waiting.delivery.id, waiting.delivery.address) for waiting in site.waiting("ops")]
    base = f"{event.id}/ops"
    assert deliveries == [(base, "a@example.org"), (f"{base}/2", "b@example.org"), (f"{base}/3", "c@example.org")]


def test_matcher_ignores_repeated_addresses(site: Site) -> None:
    site.put("ops", config={"to": "a@example.org, b@example.org, a@example.org"})
    site.publish(job("create"))
    site.observe()
    assert [waiting.delivery.address for waiting in site.waiting("ops")] == ["a@example.org", "b@example.org"]


def test_outbox_ignores_deliveries_of_repeated_commits(site: Site) -> None:
    site.put("ops")
    site.publish(*EVENTS)
    site.observe()
    commits = list(site.components.stores.log.read(site.server, 0))
    observers = [site.components.notifications.observers.get(site.server, "ops")]
    site.outbox.put(list(site.components.notifications.matcher.deliveries(commits, observers)))
    assert len(site.waiting("ops")) == len(EVENTS)


def test_patterns_without_lists_match_everything() -> None:
    assert Configuration(channel="app", config={}).patterns == (("*",),)


def _events(site: Site, name: str) -> list[object]:
    return [waiting.delivery.event for waiting in site.waiting(name)]
