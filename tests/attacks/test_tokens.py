"""Forged tokens: wrong algorithms, keys, claims and times."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from chalicelib.domain.errors import Unavailable
from chalicelib.http.auth import issuer_keys
from chalicelib.http.auth.issuer_keys import (
    MAX_DOCUMENT_BYTES,
    MAX_STALE_S,
    MIN_REQUEST_INTERVAL_S,
    REFRESH_INTERVAL_S,
)
from chalicelib.http.auth.tokens import LEEWAY_S, BadToken, IssuerKeys, Verifier
from tests.oidc_issuer import AUDIENCE, OTHER_RSA_KEY, RSA_KEY, Issuer, base64url, public_pem, sign, sign_with_hmac
from tests.serving import ALL_GROUPS, JWT_KEY, TIMEOUT_S, Member, Server, run_server

FORBIDDEN_ALGORITHMS = ["none", "None", "NONE", "nOnE", "HS256", "HS384", "hs256", "", " RS256", "rs256"]
"""Algorithms that are insecure with a public key, and invalid names."""
UNKNOWN_KEY_IDS: list[Any] = [
    *(
        "../../../../dev/null",
        "/dev/null",
        "file:///dev/null",
        "/proc/self/environ",
        "' OR '1'='1",
        "rsa' --",
        "rsa; ls",
    ),
    *("", " ", "RSA", " rsa", "rsa ", "rsa\0", "rsa\n", "rsa/../rsa", "rsa#", "*", "%72sa", "\uff52sa", "__class__"),
    *("0", "x" * 40_000, 0, 1.5, True, ["rsa"], {"rsa": "rsa"}, None),
]
"""Unknown key ids. Some would match something if they were used as paths, queries or patterns."""
ATTACKER_KEY = RSAAlgorithm.to_jwk(OTHER_RSA_KEY.public_key(), as_dict=True)


class Clock:
    """A clock that tests advance, or that advances itself with each call."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now = 1000.0
        self._step_s = step_s

    def __call__(self) -> float:
        self.now += self._step_s
        return self.now


@pytest.fixture(scope="module", name="issuer")
def fixture_issuer() -> Iterator[Issuer]:
    running = Issuer()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def _reset_issuer(issuer: Issuer) -> Iterator[None]:
    keys = list(issuer.keys)
    issuer.requests.clear()
    yield
    issuer.keys, issuer.respond = keys, None


@pytest.fixture(scope="module", name="verifier")
def fixture_verifier(issuer: Issuer) -> Verifier:
    """A verifier that may request the keys for every token."""
    clock = Clock(step_s=MIN_REQUEST_INTERVAL_S)
    return Verifier(issuer_keys_of(issuer, clock), "org", "groups")


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("tokens")) as running:
        yield running
        assert running.process.poll() is None


def issuer_keys_of(issuer: Issuer, clock: Clock) -> IssuerKeys:
    return IssuerKeys(issuer.url, AUDIENCE, f"{issuer.url}/keys", clock)


def strip_bearer(authorization: str) -> str:
    return authorization.removeprefix("Bearer ")


def with_header(claims: dict[str, Any], header: dict[str, Any], key: Any = OTHER_RSA_KEY) -> str:
    """A token with an RSA signature, independent of its header."""
    parts = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(claims).encode())}"
    algorithm = RSAAlgorithm(RSAAlgorithm.SHA256)
    return f"Bearer {parts}.{base64url(algorithm.sign(parts.encode(), key))}"


@pytest.mark.parametrize("algorithm", FORBIDDEN_ALGORITHMS)
@pytest.mark.parametrize("kid", ["rsa", "ec", "oct"])
def test_public_key_is_not_accepted_as_hmac_secret(
    algorithm: str, kid: str, issuer: Issuer, verifier: Verifier
) -> None:
    header, claims = {"alg": algorithm, "kid": kid, "typ": "JWT"}, issuer.claims()
    public = RSA_KEY.public_key()
    public_keys = [
        *(public_pem(), public_pem().strip(), b"", b"null"),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        json.dumps(next(key for key in issuer.keys if key["kid"] == kid)).encode(),
    ]
    forged = [sign_with_hmac(claims, header, key) for key in public_keys]
    unsigned = forged[0].rpartition(".")[0]
    for token in (*forged, f"{unsigned}.", unsigned):
        with pytest.raises(BadToken):
            verifier.verify(token)


@pytest.mark.parametrize("kid", UNKNOWN_KEY_IDS, ids=lambda kid: repr(kid)[:20])
def test_unknown_key_id_is_refused(kid: Any, issuer: Issuer, verifier: Verifier) -> None:
    """Also if the signature is valid for one of the issuer's keys, or was made with an empty secret."""
    header = {"alg": "RS256", "kid": kid}
    for token in (with_header(issuer.claims(), header, RSA_KEY), sign_with_hmac(issuer.claims(), header, b"")):
        with pytest.raises(BadToken):
            verifier.verify(token)


@pytest.mark.parametrize("kid", [{}, {"kid": "rsa"}, {"kid": "forged"}], ids=["no id", "a known id", "an unknown id"])
def test_key_in_token_header_is_neither_used_nor_fetched(
    kid: dict[str, str], issuer: Issuer, verifier: Verifier
) -> None:
    elsewhere = f"{issuer.url}/elsewhere"
    key = {**ATTACKER_KEY, **kid, "alg": "RS256", "use": "sig"}
    issuer.requests.clear()
    for header in ({"jwk": key}, {"jku": elsewhere}, {"x5u": elsewhere}, {"x5c": ["MIIB"]}, {"iss": elsewhere}):
        with pytest.raises(BadToken):
            verifier.verify(with_header(issuer.claims(), {"alg": "RS256", **kid, **header}))
    assert "/elsewhere" not in issuer.requests


@pytest.mark.parametrize("extension", [["exp"], ["b64"], ["x"], [], "x", None, [1]])
def test_critical_header_extension_is_refused(extension: Any, issuer: Issuer, verifier: Verifier) -> None:
    header = {"alg": "RS256", "kid": "rsa", "crit": extension, "b64": False}
    with pytest.raises(BadToken):
        verifier.verify(with_header(issuer.claims(), header, RSA_KEY))


def test_similar_issuer_is_refused(issuer: Issuer, verifier: Verifier) -> None:
    assert verifier.verify(sign(issuer.claims())).user == "anna"
    port = issuer.url.rpartition(":")[2]
    similar = [
        f"{issuer.url}/",
        issuer.url.upper(),
        f"http://localhost:{port}",
        f"{issuer.url}.evil.example",
        [issuer.url],
    ]
    for other in similar:
        with pytest.raises(BadToken):
            verifier.verify(sign(issuer.claims(iss=other)) if isinstance(other, str) else _with_claim("iss", other))


def _with_claim(name: str, value: Any) -> str:
    """A token with the issuer's signature and a claim that PyJWT would not encode."""
    claims = {"iss": "x", "sub": "anna", "aud": AUDIENCE, "exp": int(time.time()) + 600, name: value}
    return with_header(claims, {"alg": "RS256", "kid": "rsa"}, RSA_KEY)


def test_revoked_key_is_refused_after_refresh_interval(issuer: Issuer) -> None:
    clock = Clock()
    keys, token = issuer_keys_of(issuer, clock), strip_bearer(sign(issuer.claims()))
    assert keys.claims(token)["sub"] == "anna"
    issuer.keys = [key for key in issuer.keys if key["kid"] != "rsa"]
    clock.now += REFRESH_INTERVAL_S - 1
    assert keys.claims(token)["sub"] == "anna"
    clock.now += 1
    with pytest.raises(BadToken):
        keys.claims(token)


def test_replaced_key_is_refused_after_refresh_interval(issuer: Issuer) -> None:
    clock = Clock()
    keys, old = issuer_keys_of(issuer, clock), strip_bearer(sign(issuer.claims()))
    assert keys.claims(old)["sub"] == "anna"
    issuer.keys = [{**ATTACKER_KEY, "kid": "rsa", "alg": "RS256"}]
    clock.now += REFRESH_INTERVAL_S
    with pytest.raises(BadToken):
        keys.claims(old)
    assert keys.claims(strip_bearer(sign(issuer.claims(), key=OTHER_RSA_KEY)))["sub"] == "anna"


def test_new_key_is_fetched_before_refresh_interval(issuer: Issuer) -> None:
    clock = Clock()
    keys, token = issuer_keys_of(issuer, clock), strip_bearer(sign(issuer.claims(), "new", OTHER_RSA_KEY))
    assert keys.claims(strip_bearer(sign(issuer.claims())))["sub"] == "anna"
    issuer.keys = [*issuer.keys, {**ATTACKER_KEY, "kid": "new", "alg": "RS256"}]
    clock.now += MIN_REQUEST_INTERVAL_S - 1
    with pytest.raises(Unavailable):  # not BadToken: the denial would be cached
        keys.claims(token)
    clock.now += 1
    assert keys.claims(token)["sub"] == "anna"


def fail(handler: BaseHTTPRequestHandler) -> None:
    handler.send_error(500)


def send_huge(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b'{"keys": [' + b" " * (MAX_DOCUMENT_BYTES + 1) + b"]}")


def send_slowly(handler: BaseHTTPRequestHandler) -> None:
    """Send single bytes for longer than the timeout."""
    handler.send_response(200)
    handler.end_headers()
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        handler.wfile.write(b" ")
        handler.wfile.flush()
        handler.connection.settimeout(0.02)
        try:
            if not handler.connection.recv(1):
                return
        except TimeoutError:
            continue


def redirect(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "/elsewhere")
    handler.end_headers()


FAULTS: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {
    "error": fail,
    "huge": send_huge,
    "slow": send_slowly,
    "redirect": redirect,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_unknown_key_ids_do_not_flood_a_faulty_issuer(
    fault: str, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valid tokens are accepted until the cached keys are too old."""
    clock = Clock()
    keys, valid = issuer_keys_of(issuer, clock), strip_bearer(sign(issuer.claims()))
    assert keys.claims(valid)["sub"] == "anna"
    monkeypatch.setattr(issuer_keys, "REQUEST_TIMEOUT_S", 0.2)
    issuer.respond = FAULTS[fault]
    issuer.requests.clear()
    token = strip_bearer(sign(issuer.claims(), "unknown"))
    tokens = [token.replace(token.partition(".")[0], _header(f"unknown {number}")) for number in range(50)]

    def is_refused(forged: str) -> bool:
        with pytest.raises(Unavailable):
            keys.claims(forged)
        return True

    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            clock.now += MIN_REQUEST_INTERVAL_S
            assert all(pool.map(is_refused, tokens))
            assert keys.claims(valid)["sub"] == "anna"
    assert issuer.requests == ["/keys"] * 2
    clock.now += MAX_STALE_S
    with pytest.raises(Unavailable):
        keys.claims(valid)


def _header(kid: str) -> str:
    return base64url(json.dumps({"alg": "RS256", "kid": kid}).encode())


def test_unreachable_issuer_is_requested_rarely(issuer: Issuer) -> None:
    issuer.respond = fail
    keys, token = issuer_keys_of(issuer, Clock()), strip_bearer(sign(issuer.claims()))
    for _ in range(5):
        with pytest.raises(Unavailable):
            keys.claims(token)
    assert issuer.requests == ["/keys"]


def test_keys_with_file_url_are_refused(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": issuer.keys}))
    with pytest.raises(Unavailable):
        IssuerKeys(issuer.url, AUDIENCE, file.as_uri()).claims(strip_bearer(sign(issuer.claims())))


def me(server: Server, authorization: str | bytes) -> httpx.Response:
    return server.client.get("/me", headers=[(b"Authorization", _bytes(authorization))])


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def sign_local(content: str | dict[str, Any], header: dict[str, Any] | None = None) -> str:
    """A token signed with the server's own key. `content` may be invalid JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    parts = ".".join(
        base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode()
        for part in (json.dumps({"alg": "HS256", **(header or {})}), text)
    )
    signer = jwt.get_algorithm_by_name("HS256")
    return f"Bearer {parts}.{base64url(signer.sign(parts.encode(), signer.prepare_key(JWT_KEY)))}"


def make_claims(**changes: Any) -> dict[str, Any]:
    return {"sub": "anna", "org": ["local"], "groups": ALL_GROUPS, "exp": int(time.time()) + 600, **changes}


INVALID_TOKENS: dict[str, Callable[[], str | bytes]] = {
    **{
        f"alg {name!r}": partial(sign_local, {"sub": "anna", "exp": 9e9}, {"alg": name})
        for name in FORBIDDEN_ALGORITHMS
        if name != "HS256"
    },
    "an RSA signature": lambda: with_header(make_claims(), {"alg": "RS256"}),
    "an RSA signature declared as HMAC": lambda: with_header(make_claims(), {"alg": "HS256"}),
    "an embedded key": lambda: with_header(make_claims(), {"alg": "RS256", "jwk": ATTACKER_KEY}),
    "an embedded secret": lambda: sign_with_hmac(
        make_claims(), {"alg": "HS256", "jwk": {"kty": "oct", "k": base64url(b"mine")}}, b"mine"
    ),
    "the secret of an empty file": lambda: sign_with_hmac(make_claims(), {"alg": "HS256", "kid": "/dev/null"}, b""),
    "no signature": lambda: sign_local(make_claims()).rpartition(".")[0] + ".",
    "a truncated signature": lambda: sign_local(make_claims())[:-20],
    "no third part": lambda: sign_local(make_claims()).rpartition(".")[0],
    "five parts": lambda: sign_local(make_claims()) + ".a.b",
    "critical extensions": lambda: sign_local(make_claims(), {"crit": ["exp"]}),
    "a body that is not encoded": lambda: sign_local(make_claims(), {"b64": False}),
    "two tokens": lambda: f"{sign_local(make_claims())}, {sign_local(make_claims())}",
    "Latin-1 characters": lambda: f"{sign_local(make_claims())}é".encode("latin-1"),
    "UTF-8 characters": lambda: f"Bearer {'ü' * 40}.{'ü' * 40}.{'ü' * 40}",
    "60 KB of letters": lambda: f"Bearer {'A' * 60_000}",
    "60 KB of dots": lambda: f"Bearer {'.' * 60_000}",
    "a header of brackets": lambda: f"Bearer {base64url(b'[' * 40_000)}.e30.e30",
    "claims of brackets": lambda: sign_local("[" * 40_000),
    "claims that are a list": lambda: sign_local("[]"),
    "organizations as numbers": lambda: sign_local(make_claims(org=5)),
    "organizations within a list": lambda: sign_local(make_claims(org=[["local"]])),
    "organizations as an object": lambda: sign_local(make_claims(org={"local": True})),
    "an organization that is null": lambda: sign_local(make_claims(org=[None])),
    "an organization that is true": lambda: sign_local(make_claims(org=True)),
    "groups as numbers": lambda: sign_local(make_claims(groups=[1])),
    "groups within a list": lambda: sign_local(make_claims(groups=[["admins"]])),
    "groups as an object": lambda: sign_local(make_claims(groups={"admins": True})),
    "a lone surrogate in an organization": lambda: sign_local(make_claims(org=["\ud800"])),
    "a lone surrogate in a group": lambda: sign_local(make_claims(groups=["\ud800"])),
    "a lone surrogate in a name": lambda: sign_local(make_claims(sub="\ud800")),
    "a name that is a number": lambda: sign_local(make_claims(sub=5)),
    "a name that is a list": lambda: sign_local(make_claims(sub=["anna"])),
    "a name that is null": lambda: sign_local(make_claims(sub=None)),
    "an expiry that is true": lambda: sign_local(make_claims(exp=True)),
    "an expiry that is text": lambda: sign_local(make_claims(exp="never")),
    "an expiry that is a list": lambda: sign_local(make_claims(exp=[9e9])),
    "an expiry that is NaN": lambda: sign_local('{"sub": "anna", "exp": NaN}'),
    "an infinite expiry": lambda: sign_local('{"sub": "anna", "exp": Infinity}'),
    "an expiry of many digits": lambda: sign_local(f'{{"sub": "anna", "exp": {"9" * 5000}}}'),
    "a start time that is a list": lambda: sign_local(make_claims(nbf=[])),
}


@pytest.mark.parametrize("name", INVALID_TOKENS)
def test_invalid_token_returns_401(name: str, server: Server) -> None:
    response = me(server, INVALID_TOKENS[name]())
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    "org",
    [
        "*",
        ["*", "?", "%", ".", "local*", "loc?l", "LOCAL", "local ", " local", "local\n"],
        ["\uff4cocal", "local\u200b", "loca\u0307l", "./local", "../local", "local/", "l%6fcal"],
        "",
        [],
    ],
    ids=["wildcard", "look-alikes", "encodings", "empty name", "none"],
)
def test_similar_organization_name_gives_no_access(org: str | list[str], server: Server) -> None:
    """Wildcards, other cases, look-alikes and encodings do not match the organization `local`."""
    headers = {"Authorization": sign_local(make_claims(org=org))}
    me_response = server.client.get("/me", headers=headers)
    organizations = [org] if isinstance(org, str) else org
    assert (me_response.status_code, me_response.json()["organizations"]) == (200, organizations)
    default = server.client.get("/events", headers=headers)
    in_header = server.client.get("/events", headers={**headers, "X-Organization": "local"})
    in_path = server.client.get("/organizations/local/pushy/jobs", headers=headers)
    assert (default.status_code, in_header.status_code, in_path.status_code) == (
        404 if organizations else 403,
        403,
        403,
    )


@pytest.mark.parametrize(
    "sub", ["*", "../ben", "ben\r\nX: y", "\x1b[2J", "x" * 50_000, "<script>", "ben\0", "🦊", "' --"]
)
def test_user_name_with_special_text_gives_no_rights(sub: str, server: Server) -> None:
    headers = {"Authorization": sign_local(make_claims(sub=sub, groups=["readers"]))}
    me_response = server.client.get("/me", headers=headers)
    assert (me_response.status_code, me_response.json()["user"]) == (200, sub)
    assert server.client.get("/users/ben/inbox", headers=headers).status_code == 403
    refused = server.client.get("/events", headers={**headers, "X-Organization": "other"})
    assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")


def test_token_of_60_kb_is_accepted(server: Server) -> None:
    assert me(server, sign_local(make_claims(note="x" * 44_000))).status_code == 200


@pytest.mark.parametrize("order", ["good first", "good last"])
def test_two_authorization_headers_are_refused(order: str, server: Server) -> None:
    both = [sign_local(make_claims(sub="anna")), "Bearer a.b.c"]
    values = both if order == "good first" else both[::-1]
    response = server.client.get("/me", headers=[("Authorization", value) for value in values])
    assert response.status_code in (400, 401)


def test_server_refuses_short_jwt_key(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="JWT_KEY is too short: HS256 needs at least 32 characters"):
        Server(tmp_path, JWT_KEY="k" * 31)


def short_lived(server: Server, seconds: float) -> Member:
    """A member of a new organization whose token is accepted only for some more seconds."""
    member = server.organization()
    claims = make_claims(org=member.organizations, exp=time.time() + seconds - LEEWAY_S)
    member.__dict__["token"] = strip_bearer(sign_local(claims))
    return member


FEEDS = {
    "a poll": ("/events?timeout=60s", "application/json"),
    "NDJSON": ("/events?timeout=60s", "application/x-ndjson"),
    "server-sent events": ("/events", "text/event-stream"),
    "the inbox": ("/users/anna/inbox?timeout=60s", "application/json"),
    "a feed of push jobs": ("/organizations/{org}/pushy/job_status_feed", "text/event-stream"),
    "statistics": ("/jobscheduler/master/api/order?return=OrderStatisticsChanged&timeout=60s", "application/json"),
}


def test_feeds_end_when_the_token_expires(server: Server) -> None:
    member = short_lived(server, 2.0)

    def follow(name: str) -> tuple[int, bool]:
        path, accept = FEEDS[name]
        path = path.format(org=member.organization)
        started = time.monotonic()
        response = member.get(path, headers={"Accept": accept}, timeout=TIMEOUT_S)
        return response.status_code, time.monotonic() - started < TIMEOUT_S / 2

    with ThreadPoolExecutor(len(FEEDS)) as pool:
        assert list(pool.map(follow, FEEDS)) == [(200, True)] * len(FEEDS)
    assert member.get("/events").status_code == 401


def test_busy_stream_ends_when_the_token_expires(server: Server) -> None:
    member = short_lived(server, 2.0)
    others = server.member(member.organization)
    headers = {"Accept": "text/event-stream"}
    deadline = time.monotonic() + TIMEOUT_S
    with server.client.stream("GET", "/events", headers={**member.headers, **headers}) as stream:
        others.publish("a")
        pieces = 0
        for _ in stream.iter_text():
            others.publish("a")
            pieces += 1
            assert time.monotonic() < deadline
    assert pieces > 1
