"""The link that the server prints at its start: its code signs in once."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.serving import Server, run_server

CLIENTS = 8


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Server]:
    with run_server(tmp_path / "data") as server:
        yield server


def printed_code(server: Server) -> str:
    """The sign-in code in the greeting."""
    assert server.process.stdout is not None
    for line in server.process.stdout:
        if match := re.fullmatch(rf"Open the console: {server.url}/#code=([\w-]+)\n", line.decode()):
            return match[1]
    raise AssertionError("no link was printed")


def test_code_signs_in_the_operator_once(new_server: Server) -> None:
    code = printed_code(new_server)
    assert len(code) >= 32
    answer = new_server.client.post("/sign-in", json={"code": code})
    assert (answer.status_code, list(answer.json())) == (200, ["token"])
    bearer = {"Authorization": f"Bearer {answer.json()['token']}"}
    me = new_server.client.get("/me", headers=bearer).json()
    assert (me["user"], me["organizations"]) == ("operator", ["local"])
    assert me["may"] == {"read": True, "publish": True, "administer": True}
    again = new_server.client.post("/sign-in", json={"code": code})
    assert (again.status_code, again.json()["title"]) == (403, "Forbidden")


def test_code_used_concurrently_signs_in_one_client(new_server: Server) -> None:
    code = printed_code(new_server)

    def sign_in(_: int) -> int:
        return new_server.client.post("/sign-in", json={"code": code}).status_code

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert sorted(pool.map(sign_in, range(CLIENTS))) == [200, *[403] * (CLIENTS - 1)]


def test_restart_creates_a_new_code(tmp_path: Path) -> None:
    codes = []
    for _ in range(2):
        with run_server(tmp_path / "data") as server:
            codes.append(printed_code(server))
            refused = [server.client.post("/sign-in", json={"code": code}).status_code for code in codes[:-1]]
            assert refused == [403] * len(codes[:-1])
    assert len(set(codes)) == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('{"code": "wrong"}', 403),
        ('{"code": "grüße"}', 403),
        ('{"code": ""}', 400),
        ('{"code": 5}', 400),
        ('{"code": "a", "more": 1}', 400),
        ("{}", 400),
        ("no JSON", 400),
        (f'{{"code": "{"x" * 201}"}}', 400),
    ],
)
def test_wrong_code_is_refused_and_keeps_the_right_one_valid(new_server: Server, body: str, status: int) -> None:
    code = printed_code(new_server)
    headers = {"Content-Type": "application/json"}
    answer = new_server.client.post("/sign-in", content=body.encode(), headers=headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert new_server.client.post("/sign-in", json={"code": code}).status_code == 200
