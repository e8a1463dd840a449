"""Every hostile request is refused or harmless, and other clients are not affected."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest

from tests.attacks import hostile_requests
from tests.attacks.background import MemoryUsage, background_client
from tests.attacks.hostile_requests import HostileRequest, send_raw
from tests.serving import JWT_KEY, Member, Server

SECRET = "canary-of-another-organization"
FORBIDDEN_TEXTS = [SECRET, JWT_KEY, "root:x:0:0", "Chalice(app_name", "[tool.ruff]", "; for 16-bit app support"]
"""Contents of other logs and of files."""
MAX_GROWTH_MB = 250
"""Two threads may parse bodies of two megabytes at the same time."""

SEED = 20_260
KINDS: dict[str, Callable[[bytes], Iterator[HostileRequest]]] = {
    "paths": hostile_requests.paths,
    "targets": hostile_requests.targets,
    "framing": hostile_requests.framing,
    "heads": hostile_requests.heads,
    "bodies": hostile_requests.bodies,
    "noise": partial(hostile_requests.noise, seed=SEED),
}


def test_hostile_requests_with_same_seed_are_all_kinds() -> None:
    requests = hostile_requests.hostile_requests("token", SEED)
    assert list(requests) == [request for kind in KINDS.values() for request in kind(_head("token"))]


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_requests_are_refused_or_harmless(kind: str, server: Server, member: Member) -> None:
    neighbour = server.organization()
    neighbour.publish(SECRET)
    before = member.read_log()
    memory = MemoryUsage(server)
    with background_client(server):
        violations = list(_violations(server, KINDS[kind](_head(member.token))))
    assert violations == []
    assert member.read_log() == before
    assert memory.growth_mb < MAX_GROWTH_MB
    assert "Traceback" not in server.output


def _violations(server: Server, requests: Iterable[HostileRequest]) -> Iterator[str]:
    for request in requests:
        responses = send_raw(("127.0.0.1", server.port), request.data)
        if request.is_complete and not responses:
            yield f"{request.name}: no response"
        for response in responses:
            texts = [*response.headers.values(), response.body.decode("utf-8", "replace")]
            if response.status not in request.statuses:
                yield f"{request.name}: {response.status} {response.body[:200]!r}"
            if response.status >= 400 and response.headers["content-type"] != "application/problem+json":
                yield f"{request.name}: {response.status} is not a problem document"
            if "x-injected" in response.headers or any(secret in text for text in texts for secret in FORBIDDEN_TEXTS):
                yield f"{request.name}: {response.headers} {response.body[:200]!r}"


def _head(token: str) -> bytes:
    return f"Host: annals\r\nAuthorization: Bearer {token}\r\n".encode()
