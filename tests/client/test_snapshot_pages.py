"""Snapshots that the client reads in pages, without a server."""

import json
from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

import pytest

from annals_client import BadRequest
from annals_client.calls.objects import MAX_STARTS, snapshot
from annals_client.sans_io import Response
from tests.client.test_sans_io import StepRunner

CHANGED = Response(400, {}, b'{"detail": "/2 changed after the first page; start again without cursor"}')


def page(event_id: int, ids: Sequence[int], cursor: str | None) -> Response:
    objects = [{"id": number} for number in ids]
    return Response(200, {}, json.dumps({"elements": objects, "eventId": event_id, "cursor": cursor}).encode())


def cursors(runner: StepRunner) -> list[str | None]:
    """The cursors of the sent requests."""
    queries = [parse_qs(urlsplit(step.request.target).query) for step in runner.sent]
    return [query.get("cursor", [None])[0] for query in queries]


def test_snapshot_restarts_without_duplicates() -> None:
    runner = StepRunner()
    responses = [page(10, [1], "a"), page(10, [2], "b"), CHANGED, page(20, [1, 3], "c"), page(20, [4], None)]
    result = runner.run(snapshot(runner.policy, "job"), lambda number: responses[number - 1])
    assert [value["id"] for value in result.objects] == [1, 3, 4]
    assert (result.event_id, result.more_follows) == (20, False)
    assert cursors(runner) == [None, "a", "b", None, "c"]


def test_snapshot_restart_keeps_the_limit() -> None:
    runner = StepRunner()
    responses = [page(10, [1, 2], "a"), CHANGED, page(20, [1, 2], "b"), page(20, [3], "c")]
    result = runner.run(snapshot(runner.policy, "job", limit=3), lambda number: responses[number - 1])
    assert [value["id"] for value in result.objects] == [1, 2, 3]
    limits = [dict(step.request.parameters)["limit"] for step in runner.sent]
    assert (limits, result.more_follows) == (["3", "1", "3", "1"], True)


def test_snapshot_that_always_changes_raises() -> None:
    runner = StepRunner()
    message = f"the snapshot was started {MAX_STARTS} times and never completed: /2 changed after the first page"
    with pytest.raises(BadRequest, match=message):
        runner.run(snapshot(runner.policy, "job"), lambda number: page(10, [1], "a") if number % 2 else CHANGED)
    assert cursors(runner) == [None, "a"] * MAX_STARTS


def test_snapshot_refused_first_page_is_not_restarted() -> None:
    runner = StepRunner()
    with pytest.raises(BadRequest, match=r"^/2 changed"):
        runner.run(snapshot(runner.policy, "job"), lambda _: CHANGED)
    assert cursors(runner) == [None]


def test_snapshot_brief_with_limit_reads_further_pages() -> None:
    """A page of a search may have fewer objects than the limit. Only the first page has counts."""
    runner = StepRunner()
    pages = [([1], {"run": 9}, "a"), ([], None, "b"), ([2, 3], None, "c")]
    responses = [
        Response(
            200,
            {},
            json.dumps(
                {
                    "elements": [{"id": number} for number in ids],
                    "eventId": 10,
                    "counts": counts,
                    "moreFollows": True,
                    "cursor": cursor,
                }
            ).encode(),
        )
        for ids, counts, cursor in pages
    ]
    result = runner.run(snapshot(runner.policy, "job", brief=True, q="x", limit=3), lambda n: responses[n - 1])
    assert [value["id"] for value in result.objects] == [1, 2, 3]
    assert (result.counts, result.more_follows) == ({"run": 9}, True)
    assert cursors(runner) == [None, "a", "b"]
