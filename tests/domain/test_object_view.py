"""The view of an object: each event is folded once."""

from collections.abc import Callable

import pytest

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import next_commit
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.views.excerpt import make_excerpt
from chalicelib.domain.views.object_view import MAX_COPIED_CHARACTERS, MAX_RECENT_SESSIONS, ObjectView
from chalicelib.domain.views.record import Checkpoint, Record
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from tests.builders import incompressible_text
from tests.conformance.anyjob.anyjob import create, progress


def job_events() -> list[Event]:
    """A job is created and logs three lines, each in a separate session."""
    head, events = Head(1), list[Event]()
    for native in (create(1), *(progress(1, log={"message": f"line {n}"}) for n in range(3))):
        commit = next_commit(head, Append(1, encode_within_limits([JOB_VOCABULARY.new_event(native)]), "r"), 0)
        head = commit.head
        events += commit.events
    return events


@pytest.mark.parametrize("known", range(5))
def test_fold_when_view_is_ahead_counts_each_event_once(known: int) -> None:
    """A projector that crashed before it saved its checkpoint folds the same commits again."""
    events = job_events()
    view = ObjectView().fold("job", events[:known]).fold("job", events)
    assert view.state is not None
    assert view.state["logCount"] == 3
    assert (view.recent.numbers, view.last_session) == ((1, 2, 3, 4), 4)


def copied_events(message: Callable[[int], str], count: int) -> tuple[list[int], Record]:
    """The sessions whose events are copied when a job logs messages one by one, and the record of the job."""
    head, view, ref = Head(1), ObjectView(), ObjectRef("job", "/1")
    natives = [create(1), *(progress(1, log={"message": message(n)}) for n in range(count))]
    for native in natives:
        commit = next_commit(head, Append(1, encode_within_limits([JOB_VOCABULARY.new_event(native)]), "r"), 0)
        head = commit.head
        excerpt = make_excerpt(ref, commit, commit.events)
        view = view.fold("job", commit.events).add_excerpts([] if excerpt is None else [excerpt])
    return sorted(view.excerpts), view.to_records(Checkpoint(head), ref)[-1]


def test_all_events_of_a_small_job_are_copied() -> None:
    sessions, record = copied_events(lambda n: f"copied {n} files", 50)
    assert sessions == list(range(1, 52))
    assert ObjectView.from_record(record).excerpts.keys() == set(sessions)


@pytest.mark.parametrize("message", [lambda n: incompressible_text(900, n), lambda _: "x" * 3_000], ids=["noise", "x"])
def test_only_the_latest_events_of_a_large_job_are_copied(message: Callable[[int], str]) -> None:
    sessions, record = copied_events(message, 60)
    assert 1 < len(sessions) < 10
    assert sessions == list(range(62 - len(sessions), 62))
    assert len(record.data) < MAX_COPIED_CHARACTERS + 5_000


def test_archived_sessions_have_no_copies() -> None:
    sessions, record = copied_events(str, MAX_RECENT_SESSIONS)
    assert len(sessions) > 9
    assert (ObjectView.from_record(record).recent.after, ObjectView.from_record(record).excerpts) == (401, {})
