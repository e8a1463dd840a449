"""The view of an object: each event is folded once."""

import pytest

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import next_commit
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.vocabularies import JOB_VOCABULARY
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
