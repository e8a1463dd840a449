"""PUT, GET and DELETE of ping keys."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.domain.pings.ping_key import MAX_KEYS
from tests.http.pings.ping_client import Pinger, new_pinger
from tests.serving import JWT_KEY, Member, Server, run_server


def test_put_returns_key_once(member: Member) -> None:
    response = member.request("PUT", "/ping-keys/cron")
    created = response.json()
    assert (response.status_code, created.keys()) == (201, {"name", "key", "createdAt"})
    assert re.fullmatch(re.escape(member.organization) + r"\.[A-Za-z0-9_-]{32}", created["key"])
    listed = member.get("/ping-keys")
    assert listed.json() == {"pingKeys": [{"name": "cron", "createdAt": created["createdAt"]}]}
    assert (response.headers["cache-control"], listed.headers["cache-control"]) == ("no-store", "no-store")


def test_put_of_existing_name_is_refused(pinger: Pinger) -> None:
    response = pinger.member.request("PUT", "/ping-keys/cron")
    assert (response.status_code, "delete it first" in response.json()["detail"]) == (409, True)
    assert pinger.new("backup").status_code == 201


def test_concurrent_puts_of_a_name_create_one_key(member: Member) -> None:
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda _: member.request("PUT", "/ping-keys/cron"), range(8)))
    assert sorted(response.status_code for response in responses) == [201, *[409] * 7]


@pytest.mark.parametrize("name", ["-a", ".a", "a%2Fb", "a%0A", "a b", "x" * 101, "ä"])
def test_put_with_invalid_name_is_refused(name: str, member: Member) -> None:
    response = member.request("PUT", f"/ping-keys/{name}")
    assert (response.status_code, "a ping key's name has" in response.text) == (400, True)


def test_put_beyond_limit_is_refused(member: Member) -> None:
    for number in range(MAX_KEYS):
        assert member.request("PUT", f"/ping-keys/k{number}").status_code == 201
    response = member.request("PUT", "/ping-keys/more")
    assert (response.status_code, "at most 100 ping keys" in response.text) == (400, True)


def test_key_of_deleted_name_is_not_accepted(pinger: Pinger) -> None:
    pinger.new("backup")
    other, member = new_pinger(pinger.member, "other"), pinger.member
    assert member.request("DELETE", "/ping-keys/cron").json() == {"deleted": "cron"}
    assert (pinger.ping("backup").status_code, other.ping("backup").status_code) == (404, 200)
    assert member.request("DELETE", "/ping-keys/cron").status_code == 404


def test_key_of_recreated_name_replaces_former_one(pinger: Pinger) -> None:
    pinger.member.request("DELETE", "/ping-keys/cron")
    successor = new_pinger(pinger.member)
    assert successor.key != pinger.key
    assert (pinger.ping("backup?create=1").status_code, successor.ping("backup?create=1").status_code) == (404, 201)


def test_keys_are_for_admins_of_the_organization(pinger: Pinger) -> None:
    server, organization = pinger.member.server, pinger.member.organization
    for method, path in (("GET", "/ping-keys"), ("PUT", "/ping-keys/more"), ("DELETE", "/ping-keys/cron")):
        for group in ("readers", "publishers"):
            assert server.member(organization, groups=[group]).request(method, path).status_code == 403
        assert server.client.request(method, path).status_code == 401
        stranger = server.organization()
        foreign = stranger.request(method, path, headers={"X-Organization": organization})
        assert foreign.status_code == 403
    assert pinger.new("backup").status_code == 201


def test_organizations_have_separate_keys_of_same_name(pinger: Pinger) -> None:
    other = new_pinger(pinger.member.server.organization())
    other.member.request("DELETE", "/ping-keys/cron")
    assert (pinger.new("backup").status_code, other.ping("backup?create=1").status_code) == (201, 404)


def test_commits_name_key_and_its_admin(pinger: Pinger, server: Server) -> None:
    """The subject of the token creates the key, and the key's name stands for its pings."""
    pinger.new("backup")
    files = b"".join(path.read_bytes() for path in server.data_dir.rglob("annals.sqlite*"))
    assert b"ping:cron" in files


def test_stored_data_and_output_do_not_contain_key(tmp_path_factory: pytest.TempPathFactory) -> None:
    with run_server(tmp_path_factory.mktemp("secret")) as server:
        pinger = new_pinger(server.organization())
        pinger.new("backup/start")
        pinger.ping("backup/9/9?x=1")
        pinger.ping("backup?rid=x")
        secret = pinger.key.partition(".")[2].encode()
        assert secret not in b"".join(path.read_bytes() for path in server.data_dir.rglob("*") if path.is_file())
        assert secret.decode() not in server.output
        assert JWT_KEY not in server.output
