"""Pings at two hubs on the same tables."""

from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.http.pings.ping_client import new_pinger
from tests.hub.conftest import StartHub

PINGS = 12


def test_pings_at_two_hubs_end_each_run_once(start_hub: StartHub) -> None:
    hubs = [start_hub(), start_hub()]
    pinger = new_pinger(hubs[0].organization())

    def ping(number: int, path: str) -> httpx.Response:
        return hubs[number % 2].client.get(f"/ping/{pinger.key}/{path}")

    with ThreadPoolExecutor(PINGS) as pool:
        starts = list(pool.map(ping, range(PINGS), ["backup/start?create=1"] * PINGS))
        ends = list(pool.map(ping, range(2 * PINGS), ["backup"] * 2 * PINGS))
    assert {response.status_code for response in (*starts, *ends)} <= {200, 201}
    events = [event for commit in pinger.commits() for event in commit]
    assert (events.count("job/create/ping/backup"), events.count("job/finish/ping/backup")) == (2 * PINGS, 2 * PINGS)
    assert pinger.outcomes() == ["success"] * 2 * PINGS


def test_deleted_key_is_refused_at_the_other_hub(start_hub: StartHub) -> None:
    first, second = start_hub(), start_hub()
    pinger = new_pinger(first.organization())
    assert second.client.get(f"/ping/{pinger.key}/backup?create=1").status_code == 201
    assert pinger.member.request("DELETE", "/ping-keys/cron").status_code == 200
    assert second.client.get(f"/ping/{pinger.key}/backup").status_code == 404
