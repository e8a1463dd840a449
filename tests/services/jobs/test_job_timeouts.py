"""Cleaning: what has been silent for longer than its timeout is said to be cleaned, once, and nothing else is."""

import pytest

from chalicelib.domain.events.event import NewEvent
from chalicelib.services.ports import Log
from tests.conformance.anyjob.anyjob import (
    EVENTS,
    LOG,
    PARAMS,
    PROPS,
    Json,
    create,
    create_set,
    ended,
    finish,
    finish_set,
    of_job,
    planned,
    progress,
    without,
)
from tests.domain.test_jobs import raw
from tests.services.jobs.job_sites import TIMEOUT_S, Site, own_of
from tests.services.worlds import World

AN_HOUR_S = TIMEOUT_S
LARGE = "x" * 100_000


@pytest.fixture(params=["sqlite", "moto"])
def site(request: pytest.FixtureRequest, world: World) -> Site:
    """A log with jobs, on each store."""
    log: Log = request.getfixturevalue(f"{request.param}_log")
    return Site(log, request.getfixturevalue(f"{request.param}_views"), world)


def last(site: Site) -> Json:
    """The last event of the log, in the vocabulary's JSON."""
    (commit,) = site.log.read(site.server, site.log.head(site.server).session - 1)
    return own_of(commit)[-1]


def test_a_silent_job_is_cleaned_once_with_its_fields(site: Site) -> None:
    site.tell(EVENTS["create"], {**EVENTS["redirect"], "redirect": "n2"})
    site.pass_s(AN_HOUR_S)
    assert site.clean() == []
    site.pass_s(1)
    assert site.clean() == ["clean 117"]
    own = {**EVENTS["clean"], "node": "n2", "time": site.world.now_ms // 1000}
    assert without(last(site), "eventId") == own
    assert site.state("job", 117)["state"] == "cleaned"
    for _ in range(3):
        site.pass_s(10 * AN_HOUR_S)
        assert "clean 117" not in site.clean()


def test_what_is_too_large_for_the_stored_state_is_in_the_clean_all_the_same(site: Site) -> None:
    site.tell(create(1, params={"a": LARGE}, props=PROPS))
    site.project()
    site.pass_s(AN_HOUR_S + 1)
    assert site.clean() == ["clean 1"]
    assert (last(site)["params"], last(site)["props"]) == ({"a": LARGE}, PROPS)


@pytest.mark.parametrize(
    "own",
    [
        progress(1, state="run"),
        progress(1, progress="1/2"),
        progress(1, log=LOG),
        of_job("redirect", 1, redirect="n2"),
        create(1),
    ],
    ids=lambda own: f"A-20 {own['event']}",
)
def test_whatever_a_job_says_pushes_its_deadline(own: Json, site: Site) -> None:
    site.tell(create(1))
    for _ in range(3):
        site.pass_s(AN_HOUR_S - 1)
        assert site.clean() == []
        site.tell(own)
    site.pass_s(AN_HOUR_S)
    assert site.clean() == []
    site.pass_s(1)
    assert site.clean() == ["clean 1"]


@pytest.mark.parametrize("end", [finish(1), of_job("clean", 1)], ids=lambda own: str(own["event"]))
@pytest.mark.parametrize("after", [[], [progress(1)], [of_job("redirect", 1, redirect="n2")], [create(1)]], ids=len)
def test_a_job_that_is_over_is_not_cleaned(end: Json, after: list[Json], site: Site) -> None:
    site.tell(create(1), end)
    if after:
        site.tell(*after)
    site.pass_s(10 * AN_HOUR_S)
    assert site.clean() == []


def test_a_job_that_nobody_created_is_not_cleaned(site: Site) -> None:
    site.tell(of_job("redirect", 1, redirect="n2"), of_job("redirect", 2, 7, redirect="n2"))
    site.pass_s(10 * AN_HOUR_S)
    assert site.clean() == []


@pytest.mark.parametrize(
    ("text", "after_s"),
    [("60", 60), ("0", 0), ("7200", 7200), ("", AN_HOUR_S), ("soon", AN_HOUR_S), ("-5", AN_HOUR_S), ("1e3", AN_HOUR_S)],
)
def test_the_prop_clean_timeout_counts_if_it_is_a_number(text: str, after_s: float, site: Site) -> None:
    site.tell(create(1, props={"clean_timeout": text}))
    site.tell(create_set(7, 1, props={"clean_timeout": text}))
    site.pass_s(after_s)
    assert site.clean() == []
    site.pass_s(1)
    assert sorted(site.clean()) == ["clean 1", "cleanJobSet 7"]


@pytest.mark.parametrize("text", ["9" * 30, "9" * 400], ids=len)
def test_a_timeout_beyond_all_time_is_never_over(text: str, site: Site) -> None:
    site.tell(create(1, props={"clean_timeout": text}), create(2))
    site.pass_s(100 * 365 * 24 * 3600)
    assert site.clean() == ["clean 2"]


def test_a_set_is_kept_alive_by_the_events_of_its_jobs(site: Site) -> None:
    site.tell(create_set(7, 2), create(1, 7))
    for own in (progress(1, 7), create(2, 7), of_job("redirect", 2, 7, redirect="n2"), finish(1, 7), progress(2, 7)):
        site.pass_s(AN_HOUR_S - 1)
        assert "cleanJobSet 7" not in site.clean()
        site.tell(own)
    site.pass_s(AN_HOUR_S + 1)
    assert sorted(site.clean())[-1:] in (["clean 2"], ["cleanJobSet 7"])


def test_the_clean_of_a_set_lists_its_jobs_with_their_states(site: Site) -> None:
    jobs = [planned("a"), planned("b"), planned("c"), planned("d")]
    site.tell(create_set(7, jobs, node="global", props={**PROPS, "clean_timeout": "60"}))
    site.tell(create(1, 7, type="a"), create(2, 7, type="b", params=PARAMS), create(3, 7, type="c"))
    site.tell(finish(1, 7, type="a", success="0"), progress(2, 7, type="b", state="run", progress="1/2"))
    site.pass_s(61)
    assert site.clean() == ["cleanJobSet 7"]
    assert without(last(site), "eventId", "time") == {
        "event": "cleanJobSet",
        "node": "global",
        "id": 7,
        "props": {**PROPS, "clean_timeout": "60"},
        "jobs": [
            ended(1, type="a", success="0"),
            {**planned("b"), "params": PARAMS, "id": 2, "state": "run", "progress": "1/2"},
            {**planned("c"), "id": 3, "state": "created"},
            {**planned("d"), "state": "planned"},
        ],
    }
    assert (site.state("jobset", 7)["state"], site.clean()) == ("cleaned", [])


@pytest.mark.parametrize("own", [finish(1, 7), finish_set(7, 1)], ids=lambda own: str(own["event"]))
def test_a_finished_set_is_not_cleaned(own: Json, site: Site) -> None:
    site.tell(create_set(7, 1), create(1, 7), own)
    site.pass_s(10 * AN_HOUR_S)
    assert "cleanJobSet 7" not in site.clean()


def test_a_set_with_a_stranger_in_it_is_cleaned_like_others(site: Site) -> None:
    """A redirect of a job that nobody created says nothing of what it is."""
    site.tell(create_set(7, 1), of_job("redirect", 9, 7, redirect="n2"), create(5))
    site.pass_s(AN_HOUR_S + 1)
    assert sorted(site.clean()) == ["clean 5", "cleanJobSet 7"]


def test_a_set_too_large_to_be_listed_does_not_keep_others_from_being_cleaned(site: Site) -> None:
    jobs = [planned(text="x" * 6_800) for _ in range(50)]
    site.tell(create_set(7, jobs))
    for number in range(50):
        site.tell(finish(number, 7)) if number else site.tell(create(0, 7, params={"text": "y" * 100_000}))
    site.tell(create(900))
    site.pass_s(AN_HOUR_S + 1)
    assert "clean 900" in site.clean()


ODD: list[NewEvent] = [
    NewEvent(type=()),
    NewEvent(type=(), key="/job/1"),
    NewEvent(type=("job",), key="/job/1"),
    NewEvent(type=("job", "create", "n1", "backup"), key="/job/1"),
    NewEvent.model_validate({"type": ["job", "create", "n1", "backup"], "key": "/job/1",
                             "payload": {"type": "binary", "name": "create", "data": "MTIz"}}),
    raw("job/create/n1/backup", "/job/1", {"params": 1}),
    raw("job/create/n1/backup", "/job/1", {"jobset": True}),
    raw("jobset/createJobSet/n1", "/jobset/7", {"jobs": [{}]}),
]  # fmt: skip


def test_events_that_do_not_follow_the_vocabulary_are_passed_over(site: Site) -> None:
    for event in ODD:
        site.write(event)
    site.tell(create(2))
    site.pass_s(AN_HOUR_S + 1)
    assert site.clean() == ["clean 2"]


def test_a_job_written_by_hand_with_few_fields_is_cleaned_too(site: Site) -> None:
    site.write(raw("job/create/n1/backup", "/job/1", {}), raw("job/create/n1/backup", "/job/2", {"props": {"a": "b"}}))
    site.write(raw("jobset/createJobSet/n1", "/jobset/7", {"jobs": [{"node": "n1", "type": "backup"}]}))
    site.pass_s(AN_HOUR_S + 1)
    assert sorted(site.clean()) == ["clean 1", "clean 2", "cleanJobSet 7"]


def test_jobs_of_another_organization_are_its_own_matter(site: Site) -> None:
    other = Site(site.log, site.views, site.world, server=2)
    site.tell(create(1))
    other.tell(create(1), create(2))
    site.pass_s(AN_HOUR_S + 1)
    assert (site.clean(), other.log.head(2).session) == (["clean 1"], 1)
    assert sorted(other.clean()) == ["clean 1", "clean 2"]
