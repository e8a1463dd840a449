"""Push feeds at any time: the clock is the tests', and nobody waits."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_core import from_json

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import NotFound
from chalicelib.domain.sse import KEEPALIVE, RETRY
from chalicelib.domain.views.record import PROJECT, objects_view
from chalicelib.services.consumers.consumer import checkpoint_of
from chalicelib.services.feeds.push_jobs import Manner, PushFeeds
from chalicelib.services.feeds.suspension import Wait
from chalicelib.services.reading.log_reader import LogReader, NoViews
from chalicelib.services.reading.retention import Retention
from tests.conformance.push.push_client import SUCCESS, told
from tests.services.feeds.push_sites import PAGE, STREAM, Site, events, last_id, resumed, steps
from tests.services.worlds import NOW, NOW_MS, World

MINUTE_MS = 60_000


@pytest.fixture
def site(log: SqliteLog, world: World, tmp_path: Path) -> Iterator[Site]:
    database = Database(tmp_path / "views.sqlite", SCHEMA, durable=False)
    yield Site(log, SqliteViews(database), world)
    database.close()


def test_the_manner_is_that_of_push_jobs_by_default() -> None:
    assert Manner() == Manner(keep_alive_s=15.0, wait_complete_s=5.0, expiration_s=60.0)


@pytest.mark.parametrize("is_projected", [False, True], ids=["from the log", "from the views"])
@pytest.mark.parametrize(
    ("later_ms", "shown"),
    [(-10_000, SUCCESS), (0, SUCCESS), (5_000, SUCCESS), (5_001, ["summary complete"]), (10**9, ["summary complete"])],
)
def test_p_r05_a_job_that_is_over_shows_its_events_for_five_seconds(
    later_ms: int, shown: list[str], is_projected: bool, site: Site
) -> None:
    site.happen(*SUCCESS)
    if is_projected:
        site.project()
    site.world.now_ms += later_ms
    for given in (None, "bleah"):
        text, wait = steps(site.feeds().of_job(1, "j1", given))
        assert (told(events(text)), wait) == (list(shown), None)


def test_p_r05_a_job_that_is_not_over_shows_its_events_for_ever(site: Site) -> None:
    site.happen(*SUCCESS[:5])
    site.world.now_ms += 10**9
    text, wait = steps(site.feeds().of_job(1, "j1", None))
    assert told(events(text)) == list(SUCCESS[:5])
    assert isinstance(wait, Wait)


def test_p_r01_a_live_job_is_told_step_by_step_and_ends(site: Site) -> None:
    site.happen(SUCCESS[0])
    stream = site.feeds().of_job(1, "j1", None)
    text, wait = steps(stream)
    heard = [text]
    for event in SUCCESS[1:]:
        site.happen(event, "start 1", job="of no interest")
        text, wait = resumed(stream, wait)
        assert text == ""
        site.world.now_ms += 1_000
        site.happen(event)
        text, wait = resumed(stream, wait)
        heard.append(text)
    assert ([told(events(text)) for text in heard], wait) == ([[event] for event in SUCCESS], None)


def test_p_h01_a_job_that_is_not_there_is_told_before_the_first_step(site: Site) -> None:
    site.happen(SUCCESS[0])
    for call in (lambda: site.feeds().of_job(1, "j2", None), lambda: site.feeds().job(1, "j2")):
        with pytest.raises(NotFound, match="there is no push job 'j2'"):
            call()


@pytest.mark.parametrize(
    ("later_ms", "expected"),
    [
        (0, ["job_complete j1 complete"]),
        (MINUTE_MS, ["job_complete j1 complete"]),
        (MINUTE_MS + 1, ["start_of_history"]),
    ],
)
def test_p_r12_p_r14_events_of_an_organization_expire_after_a_minute(
    later_ms: int, expected: list[str], site: Site
) -> None:
    first, *_ = site.happen(*SUCCESS)
    site.world.now_ms += later_ms
    text, wait = steps(site.feeds().of_organization(1, f"org-{first}"))
    assert told(events(text)) == expected
    assert isinstance(wait, Wait)


def test_p_r12_what_has_not_expired_is_left_of_history(site: Site) -> None:
    for name in ("old", "young"):
        site.happen(*SUCCESS, job=name)
        site.world.now_ms += MINUTE_MS // 2 + 1
    text, _ = steps(site.feeds().of_organization(1, "no_such_id"))
    history, *left = events(text)
    assert told(left) == ["start young 1", "job_complete young complete"]
    assert (history.id, history.data) == ("start_id", {"timestamp": "2023-11-14 22:13:20.002000Z"})
    assert site.world.now_ms - MINUTE_MS == NOW_MS + 2  # which is that very time


def test_p_r12_history_starts_before_what_is_as_old_as_that(site: Site) -> None:
    site.happen(*SUCCESS)
    site.world.now_ms += MINUTE_MS
    text, _ = steps(site.feeds().of_organization(1, "no_such_id"))
    assert told(events(text)) == ["start_of_history", "start j1 1", "job_complete j1 complete"]


def test_p_r10_a_listener_without_an_id_hears_only_what_is_new(site: Site) -> None:
    site.happen(*SUCCESS, job="old")
    stream = site.feeds().of_organization(1, None)
    text, wait = steps(stream)
    assert text == ""
    site.happen(*SUCCESS, job="new")
    assert told(events(resumed(stream, wait)[0])) == ["start new 1", "job_complete new complete"]


def test_whoever_keeps_coming_back_for_pages_never_finds_that_their_place_has_expired(site: Site) -> None:
    site.happen(*SUCCESS, job="old")
    place = ""
    for name in ("a", "b", "c"):
        for _ in range(5):
            page, _ = steps(site.feeds(PAGE).of_organization(1, place))
            assert (events(page), page.endswith(RETRY)) == ([], True)
            place = last_id(page) or place
            site.world.now_ms += MINUTE_MS // 3
        site.happen(*SUCCESS, job=name)
        page, _ = steps(site.feeds(PAGE).of_organization(1, place))
        assert told(events(page)) == [f"start {name} 1", f"job_complete {name} complete"]
        place = last_id(page)


def test_whoever_was_away_for_too_long_is_told_so_whatever_place_they_had(site: Site) -> None:
    page, _ = steps(site.feeds(PAGE).of_organization(1, None))
    assert page == f"id: org-0-at-{NOW}\n\n{RETRY}"
    site.happen(*SUCCESS)
    for later_ms, expected in ((MINUTE_MS, []), (1, ["start_of_history"])):
        site.world.now_ms += later_ms
        text, _ = steps(site.feeds(PAGE).of_organization(1, last_id(page)))
        assert [name for name in told(events(text)) if name == "start_of_history"] == expected


@pytest.mark.parametrize(
    ("later_ms", "is_told"), [(0, False), (MINUTE_MS // 2, False), (MINUTE_MS // 2 + 1, True), (MINUTE_MS, True)]
)
def test_a_place_is_told_when_the_last_event_gets_old(later_ms: int, is_told: bool, site: Site) -> None:
    *_, last = site.happen("start 1")
    site.world.now_ms += later_ms
    page, wait = steps(site.feeds(PAGE).of_organization(1, f"org-{last}"))
    place = f"id: org-{last}-at-{site.world.now_ms * 1000}\n\n" if is_told else ""
    assert (page, wait) == (f"{place}{RETRY}", None)


def test_a_place_beyond_the_end_of_the_log_is_unknown(site: Site) -> None:
    *_, last = site.happen(*SUCCESS)
    for event_id, is_known in ((last, True), (last + 1, False)):
        text, _ = steps(site.feeds(PAGE).of_organization(1, f"org-{event_id}-at-{NOW}"))
        assert (events(text) == []) is is_known


def test_pages_of_a_job_end_with_what_there_is(site: Site) -> None:
    feeds = site.feeds(PAGE)
    first, second = site.happen(*SUCCESS[:2])
    page, wait = steps(feeds.of_job(1, "j1", None))
    assert ([event.id for event in events(page)], wait) == ([f"job-{first}", f"job-{second}"], None)
    assert page.endswith(f"\n\n{RETRY}")
    assert steps(feeds.of_job(1, "j1", f"job-{second}")) == (RETRY, None)
    site.happen(*SUCCESS[2:])
    page, wait = steps(feeds.of_job(1, "j1", f"job-{second}"))
    assert (told(events(page)), page.endswith("}\n\n"), wait) == (list(SUCCESS[2:]), True, None)


def test_p_w05_comments_come_when_nothing_else_does(site: Site) -> None:
    site.happen("start 1")
    feeds = site.feeds(replace(STREAM, keep_alive_s=0.0))
    streams = [feeds.of_job(1, "j1", f"job-{NOW}"), feeds.of_organization(1, None)]
    assert [[next(stream) for _ in range(3)] for stream in streams] == [[KEEPALIVE] * 3] * 2
    site.happen("job_complete aborted")
    assert [told(events(str(next(stream)))) for stream in streams] == [
        ["job_complete aborted"],
        ["job_complete j1 aborted"],
    ]


def test_when_the_process_ends_a_listener_learns_where_it_was(site: Site) -> None:
    *_, last = site.happen("start 1")
    of_job, of_organization = site.feeds().of_job(1, "j1", None), site.feeds().of_organization(1, None)
    waits = [steps(stream)[1] for stream in (of_job, of_organization)]
    assert resumed(of_job, waits[0], is_open=False) == ("", None)
    assert resumed(of_organization, waits[1], is_open=False) == (f"id: org-{last}-at-{NOW}\n\n", None)


def test_when_the_process_ends_a_listener_who_just_heard_something_knows_where_it_was(site: Site) -> None:
    stream = site.feeds().of_organization(1, None)
    _, wait = steps(stream)
    site.happen("start 1")
    text, wait = resumed(stream, wait)
    assert told(events(text)) == ["start j1 1"]
    assert resumed(stream, wait, is_open=False) == ("", None)


def test_a_job_with_hundreds_of_nodes_is_whole_before_and_after_the_views_know_it(site: Site) -> None:
    names = [f"node-{n:03d}.example.com" for n in range(300)]
    site.happen("start 300", *(f"quorum_vote {name} success" for name in names), "quorum_succeeded")
    site.happen(*(f"run_start {name}" for name in names))
    found = [site.feeds().job(1, "j1")]
    site.project()
    assert stored_nodes(site) is None
    found.append(site.feeds().job(1, "j1"))
    assert found[0] == found[1]
    assert found[0]["nodes"] == {"running": names}
    site.happen(*(f"run_complete {name} success" for name in names), "job_complete complete")
    for catches_up in (False, True):
        if catches_up:
            site.project()
        whole = site.feeds().job(1, "j1")
        assert (whole["nodes"], whole["status"], whole["out_of_order"]) == ({"succeeded": names}, "complete", [])
        later = PushFeeds(LogReader(site.log, site.views), Retention(site.log, site.world.clock), late, STREAM)
        (summary,) = events(steps(later.of_job(1, "j1", None))[0])
        assert (summary.name, summary.data) == ("summary", whole)
    assert stored_nodes(site) is None


def late() -> int:
    """A time at which everything is over."""
    return NOW_MS + 10**9


def stored_nodes(site: Site) -> object:
    """The nodes of the job as the views have them."""
    view = checkpoint_of(PROJECT, 1, site.views).view(objects_view("pushJob"))
    return from_json(site.views.get(view, ["/j1"])["/j1"].data)["s"]["nodes"]


def test_the_latest_jobs_come_first_and_no_more_than_asked_for(site: Site) -> None:
    for name in ("b", "a", "c"):
        site.happen("start 1", job=name)
        site.world.now_ms += 1
    site.happen("job_complete aborted", job="b")
    feeds = site.feeds()
    for most, expected in ((1, ["c"]), (2, ["c", "a"]), (9, ["c", "a", "b"])):
        assert [job["id"] for job in feeds.jobs(1, most)] == expected
    assert all("nodes" not in job for job in feeds.jobs(1, 9))


def test_feeds_need_no_views(site: Site) -> None:
    site.happen(*SUCCESS)
    bare = replace(site, views=NoViews())
    assert bare.feeds().job(1, "j1") == site.feeds().job(1, "j1")
    assert told(events(steps(bare.feeds().of_job(1, "j1", None))[0])) == list(SUCCESS)
