"""Push job feeds with a fake clock and without waiting."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import NotFound
from chalicelib.domain.sse import KEEPALIVE, RETRY
from chalicelib.domain.views.record import PROJECTOR, Record, objects_view
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.feeds.push_jobs import FeedSettings, PushFeeds
from chalicelib.services.feeds.suspension import Wait
from chalicelib.services.objects import newest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.no_views import NoViews
from chalicelib.services.reading.retention import Retention
from tests.conformance.push.push_client import SUCCESS, describe
from tests.services.fakes import NOW, NOW_MS, World
from tests.services.feeds.push_log import PAGE, STREAM, PushLog, events, last_id, read_until_wait, resume

MINUTE_MS = 60_000


@pytest.fixture
def push_log(log: SqliteLog, world: World, tmp_path: Path) -> Iterator[PushLog]:
    database = Database(tmp_path / "views.sqlite", SCHEMA, durable=False)
    yield PushLog(log, SqliteViews(database), world)
    database.close()


def test_feed_settings_default_to_push_jobs() -> None:
    assert FeedSettings() == FeedSettings(keep_alive_s=15.0, wait_complete_s=5.0, expiration_s=60.0)


@pytest.mark.parametrize("is_projected", [False, True], ids=["from the log", "from the views"])
@pytest.mark.parametrize(
    ("later_ms", "expected"),
    [(-10_000, SUCCESS), (0, SUCCESS), (5_000, SUCCESS), (5_001, ["summary complete"]), (10**9, ["summary complete"])],
)
def test_p_r05_ended_job_shows_events_for_five_seconds(
    later_ms: int, expected: list[str], is_projected: bool, push_log: PushLog
) -> None:
    push_log.publish(*SUCCESS)
    if is_projected:
        push_log.project()
    push_log.world.now_ms += later_ms
    for last_event_id in (None, "bleah"):
        text, wait = read_until_wait(push_log.feeds().job_events(1, "j1", last_event_id))
        assert (describe(events(text)), wait) == (list(expected), None)


def test_p_r05_running_job_shows_events_forever(push_log: PushLog) -> None:
    push_log.publish(*SUCCESS[:5])
    push_log.world.now_ms += 10**9
    text, wait = read_until_wait(push_log.feeds().job_events(1, "j1", None))
    assert describe(events(text)) == list(SUCCESS[:5])
    assert isinstance(wait, Wait)


def test_p_r01_job_feed_streams_events_until_end(push_log: PushLog) -> None:
    push_log.publish(SUCCESS[0])
    stream = push_log.feeds().job_events(1, "j1", None)
    text, wait = read_until_wait(stream)
    texts = [text]
    for event in SUCCESS[1:]:
        push_log.publish(event, "start 1", job="of no interest")
        text, wait = resume(stream, wait)
        assert text == ""
        push_log.world.now_ms += 1_000
        push_log.publish(event)
        text, wait = resume(stream, wait)
        texts.append(text)
    assert ([describe(events(text)) for text in texts], wait) == ([[event] for event in SUCCESS], None)


def test_p_h01_unknown_job_raises_before_streaming(push_log: PushLog) -> None:
    push_log.publish(SUCCESS[0])
    for call in (lambda: push_log.feeds().job_events(1, "j2", None), lambda: push_log.feeds().job(1, "j2")):
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
def test_p_r12_p_r14_organization_events_expire_after_a_minute(
    later_ms: int, expected: list[str], push_log: PushLog
) -> None:
    first, *_ = push_log.publish(*SUCCESS)
    push_log.world.now_ms += later_ms
    text, wait = read_until_wait(push_log.feeds().organization_events(1, f"org-{first}"))
    assert describe(events(text)) == expected
    assert isinstance(wait, Wait)


def test_p_r12_history_contains_events_not_yet_expired(push_log: PushLog) -> None:
    for name in ("old", "young"):
        push_log.publish(*SUCCESS, job=name)
        push_log.world.now_ms += MINUTE_MS // 2 + 1
    text, _ = read_until_wait(push_log.feeds().organization_events(1, "no_such_id"))
    history, *left = events(text)
    assert describe(left) == ["start young 1", "job_complete young complete"]
    assert (history.id, history.data) == ("start_id", {"timestamp": "2023-11-14 22:13:20.002000Z"})
    assert push_log.world.now_ms - MINUTE_MS == NOW_MS + 2  # The timestamp above.


def test_p_r12_history_contains_events_at_its_start(push_log: PushLog) -> None:
    push_log.publish(*SUCCESS)
    push_log.world.now_ms += MINUTE_MS
    text, _ = read_until_wait(push_log.feeds().organization_events(1, "no_such_id"))
    assert describe(events(text)) == ["start_of_history", "start j1 1", "job_complete j1 complete"]


def test_p_r10_feed_without_id_shows_only_new_events(push_log: PushLog) -> None:
    push_log.publish(*SUCCESS, job="old")
    stream = push_log.feeds().organization_events(1, None)
    text, wait = read_until_wait(stream)
    assert text == ""
    push_log.publish(*SUCCESS, job="new")
    assert describe(events(resume(stream, wait)[0])) == ["start new 1", "job_complete new complete"]


def test_paged_feed_position_never_expires_while_polling(push_log: PushLog) -> None:
    push_log.publish(*SUCCESS, job="old")
    position = ""
    for name in ("a", "b", "c"):
        for _ in range(5):
            page, _ = read_until_wait(push_log.feeds(PAGE).organization_events(1, position))
            assert (events(page), page.endswith(RETRY)) == ([], True)
            position = last_id(page) or position
            push_log.world.now_ms += MINUTE_MS // 3
        push_log.publish(*SUCCESS, job=name)
        page, _ = read_until_wait(push_log.feeds(PAGE).organization_events(1, position))
        assert describe(events(page)) == [f"start {name} 1", f"job_complete {name} complete"]
        position = last_id(page)


def test_paged_feed_with_expired_position_starts_history(push_log: PushLog) -> None:
    page, _ = read_until_wait(push_log.feeds(PAGE).organization_events(1, None))
    assert page == f"id: org-0-at-{NOW}\n\n{RETRY}"
    push_log.publish(*SUCCESS)
    for later_ms, expected in ((MINUTE_MS, []), (1, ["start_of_history"])):
        push_log.world.now_ms += later_ms
        text, _ = read_until_wait(push_log.feeds(PAGE).organization_events(1, last_id(page)))
        assert [name for name in describe(events(text)) if name == "start_of_history"] == expected


@pytest.mark.parametrize(
    ("later_ms", "is_renewed"), [(0, False), (MINUTE_MS // 2, False), (MINUTE_MS // 2 + 1, True), (MINUTE_MS, True)]
)
def test_paged_feed_renews_position_of_old_event(later_ms: int, is_renewed: bool, push_log: PushLog) -> None:
    *_, last = push_log.publish("start 1")
    push_log.world.now_ms += later_ms
    page, wait = read_until_wait(push_log.feeds(PAGE).organization_events(1, f"org-{last}"))
    position = f"id: org-{last}-at-{push_log.world.now_ms * 1000}\n\n" if is_renewed else ""
    assert (page, wait) == (f"{position}{RETRY}", None)


def test_position_beyond_end_of_log_is_unknown(push_log: PushLog) -> None:
    *_, last = push_log.publish(*SUCCESS)
    for event_id, is_known in ((last, True), (last + 1, False)):
        text, _ = read_until_wait(push_log.feeds(PAGE).organization_events(1, f"org-{event_id}-at-{NOW}"))
        assert (events(text) == []) is is_known


def test_paged_job_feed_ends_with_last_event(push_log: PushLog) -> None:
    feeds = push_log.feeds(PAGE)
    first, second = push_log.publish(*SUCCESS[:2])
    page, wait = read_until_wait(feeds.job_events(1, "j1", None))
    assert ([event.id for event in events(page)], wait) == ([f"job-{first}", f"job-{second}"], None)
    assert page.endswith(f"\n\n{RETRY}")
    assert read_until_wait(feeds.job_events(1, "j1", f"job-{second}")) == (RETRY, None)
    push_log.publish(*SUCCESS[2:])
    page, wait = read_until_wait(feeds.job_events(1, "j1", f"job-{second}"))
    assert (describe(events(page)), page.endswith("}\n\n"), wait) == (list(SUCCESS[2:]), True, None)


def test_p_w05_idle_feed_sends_comments(push_log: PushLog) -> None:
    push_log.publish("start 1")
    feeds = push_log.feeds(replace(STREAM, keep_alive_s=0.0))
    streams = [feeds.job_events(1, "j1", f"job-{NOW}"), feeds.organization_events(1, None)]
    assert [[next(stream) for _ in range(3)] for stream in streams] == [[KEEPALIVE] * 3] * 2
    push_log.publish("job_complete aborted")
    assert [describe(events(str(next(stream)))) for stream in streams] == [
        ["job_complete aborted"],
        ["job_complete j1 aborted"],
    ]


def test_feed_at_shutdown_sends_position(push_log: PushLog) -> None:
    *_, last = push_log.publish("start 1")
    job_stream, organization_stream = (
        push_log.feeds().job_events(1, "j1", None),
        push_log.feeds().organization_events(1, None),
    )
    waits = [read_until_wait(stream)[1] for stream in (job_stream, organization_stream)]
    assert resume(job_stream, waits[0], is_open=False) == ("", None)
    assert resume(organization_stream, waits[1], is_open=False) == (f"id: org-{last}-at-{NOW}\n\n", None)


def test_feed_at_shutdown_after_event_sends_no_position(push_log: PushLog) -> None:
    stream = push_log.feeds().organization_events(1, None)
    _, wait = read_until_wait(stream)
    push_log.publish("start 1")
    text, wait = resume(stream, wait)
    assert describe(events(text)) == ["start j1 1"]
    assert resume(stream, wait, is_open=False) == ("", None)


def test_large_job_is_complete_with_and_without_views(push_log: PushLog) -> None:
    names = [f"node-{n:03d}.example.com" for n in range(300)]
    push_log.publish("start 300", *(f"quorum_vote {name} success" for name in names), "quorum_succeeded")
    push_log.publish(*(f"run_start {name}" for name in names))
    states = [push_log.feeds().job(1, "j1")]
    push_log.project()
    assert stored_nodes(push_log) is None
    states.append(push_log.feeds().job(1, "j1"))
    assert states[0] == states[1]
    assert states[0]["nodes"] == {"running": names}
    push_log.publish(*(f"run_complete {name} success" for name in names), "job_complete complete")
    for is_projected in (False, True):
        if is_projected:
            push_log.project()
        state = push_log.feeds().job(1, "j1")
        assert (state["nodes"], state["status"], state["out_of_order"]) == ({"succeeded": names}, "complete", [])
        later = PushFeeds(
            LogReader(push_log.log, push_log.views), Retention(push_log.log, push_log.world.clock), late_clock, STREAM
        )
        (summary,) = events(read_until_wait(later.job_events(1, "j1", None))[0])
        assert (summary.name, summary.data) == ("summary", state)
    assert stored_nodes(push_log) is None


def late_clock() -> int:
    """A clock far in the future."""
    return NOW_MS + 10**9


def stored_nodes(push_log: PushLog) -> object:
    """The nodes of the job in the view."""
    view = load_checkpoint(PROJECTOR, 1, push_log.views).view_name(objects_view("pushJob"))
    return from_json(push_log.views.get(view, ["/j1"])["/j1"].data)["s"]["nodes"]


def test_jobs_returns_latest_jobs_up_to_limit(push_log: PushLog) -> None:
    for name in ("b", "a", "c"):
        push_log.publish("start 1", job=name)
        push_log.world.now_ms += 1
    push_log.publish("job_complete aborted", job="b")
    feeds = push_log.feeds()
    for limit, expected in ((1, ["c"]), (2, ["c", "a"]), (9, ["c", "a", "b"])):
        assert [job["id"] for job in feeds.jobs(1, limit)] == expected
    assert all("nodes" not in job for job in feeds.jobs(1, 9))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_jobs_pages_equal_sorted_jobs(data: st.DataObject) -> None:
    """In any order of changes, with views that lag, and with jobs that were created at the same time."""
    with TemporaryDirectory() as folder:
        log_database = Database(Path(folder) / "log.sqlite", durable=False)
        views_database = Database(Path(folder) / "views.sqlite", SCHEMA, durable=False)
        push_log = PushLog(SqliteLog(log_database), SqliteViews(views_database), World())
        for name in data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=20), label="changes"):
            push_log.publish("start 1", job=name)
            push_log.world.now_ms += data.draw(st.integers(0, 1), label="pause")
            if data.draw(st.booleans(), label="projects"):
                push_log.project()
        feeds = push_log.feeds()
        every = [(job["created_at"], job["id"]) for job in feeds.jobs(1, 100)]
        assert every == sorted(sorted(every, key=lambda job: job[1]), key=lambda job: job[0], reverse=True)
        limit, pages, after = data.draw(st.integers(1, 4), label="limit"), list[str](), ""
        while page := feeds.jobs(1, limit, after):
            pages += [job["id"] for job in page]
            after = pages[-1]
        log_database.close()
        views_database.close()
    assert pages == [name for _, name in every]


def test_jobs_reads_latest_jobs_only(push_log: PushLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "PAGE", 20)
    for number in range(300):
        push_log.publish("start 1", job=f"j{number:03d}")
        push_log.world.now_ms += 1
    push_log.publish("job_complete aborted", job="j000")
    push_log.project()
    items: list[str] = []

    class RecordingViews(SqliteViews):
        def get(self, view: str, items_: Sequence[str]) -> dict[str, Record]:
            items.extend(items_ if "pushJob" in view else ())
            return super().get(view, items_)

    database = Database(tmp_path / "views.sqlite", SCHEMA, durable=False)
    jobs = replace(push_log, views=RecordingViews(database)).feeds().jobs(1, 10)
    database.close()
    assert [job["id"] for job in jobs] == [f"j{number:03d}" for number in range(299, 289, -1)]
    assert len(items) < 60


def test_feeds_work_without_views(push_log: PushLog) -> None:
    push_log.publish(*SUCCESS)
    without_views = replace(push_log, views=NoViews())
    assert without_views.feeds().job(1, "j1") == push_log.feeds().job(1, "j1")
    assert describe(events(read_until_wait(without_views.feeds().job_events(1, "j1", None))[0])) == list(SUCCESS)
