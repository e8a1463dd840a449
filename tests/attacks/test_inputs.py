"""Every hostile request gets a clear refusal or a harmless answer, and nobody else notices."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest

from tests.attacks import inputs
from tests.attacks.honest import Memory, honest_people
from tests.attacks.inputs import Hostile, throw
from tests.serving import JWT_KEY, Member, Server

SECRET = "canary-of-another-organization"
ELSEWHERE = [SECRET, JWT_KEY, "root:x:0:0", "Chalice(app_name", "[tool.ruff]", "; for 16-bit app support"]
"""What is in other logs and other files."""
MOST_GROWTH_MB = 250
"""What the worst of them may take, some after the other: bodies of two megabytes, parsed, by two threads."""

SEED = 20_260
KINDS: dict[str, Callable[[bytes], Iterator[Hostile]]] = {
    "paths": inputs.paths,
    "targets": inputs.targets,
    "framing": inputs.framing,
    "heads": inputs.heads,
    "queries": inputs.queries,
    "bodies": inputs.bodies,
    "noise": partial(inputs.noise, seed=SEED),
}


def test_the_kinds_are_all_there_is_and_the_same_seed_makes_the_same() -> None:
    assert list(inputs.hostile("token", SEED)) == [one for kind in KINDS.values() for one in kind(_head("token"))]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_hostile_is_refused_or_harmless(kind: str, server: Server, member: Member) -> None:
    neighbour = server.organization()
    neighbour.publish(SECRET)
    before = member.stored()
    memory = Memory(server)
    with honest_people(server):
        surprises = list(_surprises(server, KINDS[kind](_head(member.token))))
    assert surprises == []
    assert member.stored() == before
    assert memory.growth_mb < MOST_GROWTH_MB
    assert "Traceback" not in server.output


def _surprises(server: Server, hostile: Iterable[Hostile]) -> Iterator[str]:
    for one in hostile:
        answers = throw(("127.0.0.1", server.port), one.data)
        if one.has_end and not answers:
            yield f"{one.name}: no answer"
        for got in answers:
            told = (got.headers | {"": got.body.decode("utf-8", "replace")}).items()
            if got.status not in one.statuses:
                yield f"{one.name}: {got.status} {got.body[:200]!r}"
            if got.status >= 400 and got.headers["content-type"] != "application/problem+json":
                yield f"{one.name}: {got.status} is no problem document"
            if "x-injected" in got.headers or any(secret in text for _, text in told for secret in ELSEWHERE):
                yield f"{one.name}: {got.headers} {got.body[:200]!r}"


def _head(token: str) -> bytes:
    return f"Host: annals\r\nAuthorization: Bearer {token}\r\n".encode()
