"""The link that the server prints at its start: it opens the console, and signs in once."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.serving import Server, serving

CLIENTS = 8


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "data") as server:
        yield server


def code_of(server: Server) -> str:
    """The code in the greeting."""
    assert server.process.stdout is not None
    for line in server.process.stdout:
        if found := re.fullmatch(rf"Open the console: {server.url}/#code=([\w-]+)\n", line.decode()):
            return found[1]
    raise AssertionError("no link was printed")


def test_the_link_signs_in_the_operator_once(started: Server) -> None:
    code = code_of(started)
    assert len(code) >= 32
    answer = started.client.post("/sign-in", json={"code": code})
    assert (answer.status_code, list(answer.json())) == (200, ["token"])
    bearer = {"Authorization": f"Bearer {answer.json()['token']}"}
    me = started.client.get("/me", headers=bearer).json()
    assert (me["user"], me["organizations"]) == ("operator", ["local"])
    assert me["may"] == {"read": True, "publish": True, "administer": True}
    again = started.client.post("/sign-in", json={"code": code})
    assert (again.status_code, again.json()["title"]) == (403, "Forbidden")


def test_of_many_who_open_the_link_at_once_one_is_signed_in(started: Server) -> None:
    code = code_of(started)

    def sign_in(_: int) -> int:
        return started.client.post("/sign-in", json={"code": code}).status_code

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert sorted(pool.map(sign_in, range(CLIENTS))) == [200, *[403] * (CLIENTS - 1)]


def test_every_start_has_a_code_of_its_own(tmp_path: Path) -> None:
    codes = []
    for _ in range(2):
        with serving(tmp_path / "data") as server:
            codes.append(code_of(server))
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
def test_another_code_is_refused_and_does_not_use_up_the_right_one(started: Server, body: str, status: int) -> None:
    code = code_of(started)
    headers = {"Content-Type": "application/json"}
    answer = started.client.post("/sign-in", content=body.encode(), headers=headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert started.client.post("/sign-in", json={"code": code}).status_code == 200
