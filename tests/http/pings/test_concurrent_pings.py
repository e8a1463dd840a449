"""Pings at the same time, and repeated pings."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import pytest

from tests.http.pings.ping_client import Pinger, new_pinger

THREADS = 8


def ping_all(pinger: Pinger, *paths: str) -> list[httpx.Response]:
    """Send pings at the same time."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(pinger.ping, paths))


def test_concurrent_starts_are_separate_runs(pinger: Pinger) -> None:
    responses = ping_all(pinger, *["backup/start?create=1"] * THREADS)
    assert {response.status_code for response in responses} <= {200, 201}
    assert pinger.outcomes() == [None] * THREADS
    assert [job["run"] for job in map(pinger.job, range(1, THREADS + 1))] == [1] * THREADS


def test_concurrent_ends_of_one_run_end_it_once(pinger: Pinger) -> None:
    pinger.new("backup/start")
    assert {response.status_code for response in ping_all(pinger, *["backup"] * THREADS)} == {200}
    assert pinger.outcomes() == ["success"] * THREADS
    types = [event for commit in pinger.commits() for event in commit]
    assert types.count("job/create/ping/backup") == types.count("job/finish/ping/backup") == THREADS


def test_concurrent_runs_with_rids_end_as_reported(pinger: Pinger) -> None:
    rids = {str(uuid4()): number % 3 for number in range(3 * THREADS)}
    pinger.new("backup")
    ping_all(pinger, *(f"backup/start?rid={rid}" for rid in rids))
    responses = ping_all(pinger, *(f"backup/{status}?rid={rid}" for rid, status in rids.items()))
    assert {response.status_code for response in responses} == {200}
    jobs = pinger.member.get("/objects/job").json()["elements"]
    outcomes = {job["props"]["rid"]: job["outcome"] for job in jobs if "rid" in job["props"]}
    assert outcomes == {rid: "failure" if status else "success" for rid, status in rids.items()}
    assert len(jobs) == 1 + len(rids)


@pytest.mark.parametrize("path", ["backup/start", "backup", "backup/4", "backup/log"])
@pytest.mark.parametrize("first", ["other", "backup/start"])
def test_repeat_with_idempotency_key_is_recognized(first: str, path: str, pinger: Pinger) -> None:
    pinger.new(first)
    headers = {"Idempotency-Key": "nightly-1"}
    responses = [pinger.ping(f"{path}?create=1", headers=headers) for _ in range(3)]
    assert [response.headers.get("idempotent-replayed") for response in responses] == [None, "true", "true"]
    assert [response.status_code for response in responses[1:]] == [200, 200]
    assert len(pinger.commits()) == 2


def test_concurrent_repeats_are_one_ping(pinger: Pinger) -> None:
    pinger.new("backup")
    headers = {"Idempotency-Key": "nightly-1"}
    with ThreadPoolExecutor(THREADS) as pool:
        responses = list(pool.map(lambda _: pinger.ping("backup", headers=headers), range(THREADS)))
    assert sorted(response.headers.get("idempotent-replayed", "") for response in responses) == [
        "",
        *["true"] * (THREADS - 1),
    ]
    assert pinger.outcomes() == ["success"] * 2


@pytest.mark.parametrize("path", ["other?create=1", "backup/start", "backup?node=n1"])
def test_idempotency_key_of_another_ping_is_refused(path: str, pinger: Pinger) -> None:
    headers = {"Idempotency-Key": "nightly-1"}
    assert pinger.ping("backup?create=1", headers=headers).status_code == 201
    response = pinger.ping(path, headers=headers)
    assert (response.status_code, "'nightly-1'" in response.json()["detail"]) == (422, True)
    assert len(pinger.commits()) == 1


def test_idempotency_keys_of_ping_keys_are_separate(pinger: Pinger) -> None:
    """A ping key must not use up the idempotency keys of publishers, nor those of another ping key."""
    other, headers = new_pinger(pinger.member, "other"), {"Idempotency-Key": "nightly-1"}
    assert pinger.ping("backup?create=1", headers=headers).status_code == 201
    assert other.ping("backup/start", headers=headers).status_code == 200
    assert pinger.member.post({"events": [{"type": ["a"]}]}, **headers).status_code == 201
