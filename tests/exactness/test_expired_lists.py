"""Lists of objects whose first events retention has deleted."""

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.views.record import ConditionalWrite
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.objects.counting import count_objects
from chalicelib.services.objects.listing import ListQuery, list_objects
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary
from tests.conformance.anyjob.anyjob import create, finish
from tests.exactness.test_list_costs import append_all


class Interrupted(Exception):
    """The projector ends here."""


@pytest.fixture(params=["0.00000000000", "root"])
def expired(
    request: pytest.FixtureRequest, sqlite_log: SqliteLog, sqlite_views: SqliteViews, monkeypatch: pytest.MonkeyPatch
) -> RetentionBoundary:
    """Retention has deleted the creation of job 1. The projector has stored its end, but not the leaf or the root.

    In the same run job 5 is created.
    """
    append_all(sqlite_log, [JOB_VOCABULARY.new_event(create(number)) for number in range(1, 5)], 1)
    catch_up(projector(sqlite_views), 1, sqlite_log, sqlite_views)
    append_all(sqlite_log, [JOB_VOCABULARY.new_event(event) for event in (finish(1, success="1"), create(5))], 1)
    put = SqliteViews.put

    def put_until_item(views: SqliteViews, changes: list[ConditionalWrite]) -> list[ConditionalWrite]:
        if any("/list:" in change.record.view and change.record.item == request.param for change in changes):
            raise Interrupted
        return put(views, changes)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteViews, "put", put_until_item)
        with pytest.raises(Interrupted):
            catch_up(projector(sqlite_views), 1, sqlite_log, sqlite_views)
    first = sqlite_log.commit(1, 1)
    assert first is not None
    return RetentionBoundary(first.head, first.last_event_id)


def test_list_between_objects_and_root_is_answered(
    sqlite_log: SqliteLog, sqlite_views: SqliteViews, expired: RetentionBoundary
) -> None:
    page = list_objects(ListQuery(1, "job", PathQuery.parse("/")), LogReader(sqlite_log, sqlite_views), expired)
    assert [summary.path for summary in page.elements] == ["/5", "/1", "/4", "/3", "/2"]
    assert (page.counts, page.results) == ({"created": 4, "finished": 1}, {"success": 1})


def test_counts_between_objects_and_root_are_exact(
    sqlite_log: SqliteLog, sqlite_views: SqliteViews, expired: RetentionBoundary
) -> None:
    counts = count_objects(LogReader(sqlite_log, sqlite_views), 1, "job", expired)
    assert counts is not None
    assert counts.states == {"created": 4, "finished": 1}
