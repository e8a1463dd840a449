"""Which events concern an observer: patterns, AnyJob's lists, and what is dedicated to somebody."""

import pytest

from chalicelib.domain.notifications.observer import Configuration
from tests.notifications.narration import Teller, job
from tests.notifications.outside import Json
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
    "nothing said": ({}, ALL),
    "all": ({"events": "all"}, ALL),
    "all among others": ({"events": "create, all"}, ALL),
    "an empty list": ({"events": ""}, ALL),
    "nothing but commas": ({"events": " , ,", "nodes": " "}, ALL),
    "one event": ({"events": "create"}, [0, 1]),
    "events with spaces": ({"events": " create ,  finish\t,redirect "}, [0, 1, 2, 3, 4]),
    "events of sets": ({"events": "createJobSet,finishJobSet"}, [5, 6]),
    "one node": ({"nodes": "n2"}, [1, 4, 6]),
    "nodes with spaces": ({"nodes": " n1 , n2,n3 "}, ALL),
    "a node nobody has": ({"nodes": "n"}, []),
    "events and nodes": ({"events": "finish,finishJobSet", "nodes": "n2"}, [4, 6]),
    "all of a node": ({"events": "all", "nodes": "n1"}, [0, 2, 3, 5]),
    "a pattern": ({"types": ["job/finish/*"]}, [3, 4]),
    "a pattern with any subtype": ({"types": ["job/?/n2/deploy"]}, [1, 4]),
    "patterns that overlap": ({"types": ["job/*", "job/create/*", "*"]}, ALL),
    "a pattern of nothing": ({"types": ["job"]}, []),
    "no patterns": ({"types": []}, []),
}


@pytest.mark.parametrize("name", LISTS)
def test_an_observer_is_about_what_it_lists(here: Site, name: str) -> None:
    configuration, expected = LISTS[name]
    here.put("ops", **configuration)
    events = here.publish(*EVENTS)
    here.observe()
    told = [one.delivery.event for one in here.waiting("ops")]
    assert told == [events[place].id for place in expected]


def test_an_event_outside_the_vocabulary_is_told_only_to_those_who_named_none(anna: Teller) -> None:
    anna.put("every", config={"to": f"every.{anna.address}"})
    anna.put("jobs", events="all")
    anna.member.publish("disk/full")
    anna.publish(job("create"))
    assert (anna.settled("every", 2), anna.settled("jobs", 1)) == ({"sent": 2}, {"sent": 1})
    assert anna.world.subjects(f"every.{anna.address}") == ["disk/full", "Job created"]
    assert anna.world.subjects(anna.address) == ["Job created"]


PRIVATE: dict[str, tuple[Json, list[str]]] = {
    "nothing": ({}, []),
    "its own name": ({"observer": "of-anna"}, ["of-anna"]),
    "its user as author": ({"author": "anna"}, ["of-anna", "of-anna-too"]),
    "another author": ({"author": "ben"}, ["of-ben"]),
    "a name and another's author": ({"observer": "of-anna", "author": "ben"}, ["of-anna", "of-ben"]),
    "a name of nobody": ({"observer": "of-nobody"}, []),
    "an author written otherwise": ({"author": "Anna"}, []),
    "the name of a global one": ({"observer": "all"}, []),
}


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("event", ["create", "createJobSet", "redirect"])
def test_private_observers_see_what_is_dedicated_to_them(here: Site, event: str, name: str) -> None:
    props, expected = PRIVATE[name]
    here.put("all")
    for own, user in (("of-anna", "anna"), ("of-anna-too", "anna"), ("of-ben", "ben")):
        here.put(own, "app", scope="private", user=user, config={})
    if event == "redirect":
        here.publish(job("create", 1, props=props))
        (told,) = here.publish(job("redirect", 1))
    else:
        (told,) = here.publish(job(event, 1, props=props))
    here.observe()
    private = [own for own in ("of-anna", "of-anna-too", "of-ben") if told.id in _events(here, own)]
    assert private == expected
    assert told.id in _events(here, "all")


def test_jobs_are_not_asked_whose_observer_is_meant(here: Site) -> None:
    here.jobs({"backup": {"observer": "of-anna", "author": "anna"}})
    here.put("of-anna", "app", scope="private", user="anna", config={})
    here.publish(job("create"))
    here.observe()
    assert here.waiting("of-anna") == []


def test_the_redirect_of_a_job_that_nobody_created_is_nobodys(here: Site) -> None:
    here.put("of-anna", "app", scope="private", user="anna", config={})
    here.publish(job("redirect", 99))
    here.observe()
    assert here.waiting("of-anna") == []


def test_a_redirect_that_says_whose_it_is_needs_no_job(here: Site) -> None:
    here.put("of-anna", "app", scope="private", user="anna", config={})
    here.publish(job("redirect", 99, type="backup", props={"author": "anna"}))
    here.observe()
    assert len(here.waiting("of-anna")) == 1


def test_each_address_has_a_delivery_of_its_own(here: Site) -> None:
    here.put("ops", config={"to": "a@example.org, b@example.org,c@example.org"})
    (event,) = here.publish(job("create"))
    here.observe()
    found = [(one.delivery.id, one.delivery.address) for one in here.waiting("ops")]
    base = f"{event.id}/ops"
    assert found == [(base, "a@example.org"), (f"{base}/2", "b@example.org"), (f"{base}/3", "c@example.org")]


def test_who_is_named_twice_is_told_once(here: Site) -> None:
    here.put("ops", config={"to": "a@example.org, b@example.org, a@example.org"})
    here.publish(job("create"))
    here.observe()
    assert [one.delivery.address for one in here.waiting("ops")] == ["a@example.org", "b@example.org"]


def test_to_observe_the_same_commits_again_puts_nothing_twice(here: Site) -> None:
    here.put("ops")
    here.publish(*EVENTS)
    here.observe()
    commits = list(here.parts.log.read(here.server, 0))
    observers = [here.parts.observers.one(here.server, "ops")]
    here.outbox.put(list(here.parts.observing.deliveries(commits, observers)))
    assert len(here.waiting("ops")) == len(EVENTS)


def test_everything_is_a_pattern_of_its_own() -> None:
    assert Configuration(channel="app", config={}).patterns == (("*",),)


def _events(here: Site, name: str) -> list[object]:
    return [one.delivery.event for one in here.waiting(name)]
