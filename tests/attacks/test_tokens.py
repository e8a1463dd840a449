"""Tokens that lie: about their algorithm, their key, their claims, their time."""

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

from chalicelib.http.auth import issuer_keys
from chalicelib.http.auth.issuer_keys import GOOD_S, MOST_BYTES, OUTAGE_S, PAUSE_S, IssuerUnknown
from chalicelib.http.auth.tokens import BadToken, IssuerKeys, Verifier
from tests.issuing import AUDIENCE, OTHER_RSA_KEY, RSA_KEY, Issuer, base64url, hmac_signed, public_pem, signed
from tests.serving import ALL_GROUPS, JWT_KEY, PATIENCE_S, Member, Server, serving

NEVER = ["none", "None", "NONE", "nOnE", "HS256", "HS384", "hs256", "", " RS256", "rs256"]
"""Algorithms that prove nothing with a public key, and words that are none."""
NO_KEYS: list[Any] = [
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
"""Names that no key has, though some would find something where names are paths, queries or patterns."""
FORGERS_KEY = RSAAlgorithm.to_jwk(OTHER_RSA_KEY.public_key(), as_dict=True)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module", name="issuer")
def an_issuer() -> Iterator[Issuer]:
    running = Issuer()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def _well_behaved(issuer: Issuer) -> Iterator[None]:
    keys = list(issuer.keys)
    issuer.asked.clear()
    yield
    issuer.keys, issuer.instead = keys, None


@pytest.fixture(scope="module", name="verifier")
def a_verifier(issuer: Issuer) -> Verifier:
    return issuer.verifier()


@pytest.fixture(scope="module", name="server")
def a_server_with_its_own_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("tokens")) as running:
        yield running
        assert running.process.poll() is None


def keys_of(issuer: Issuer, clock: Clock) -> IssuerKeys:
    return IssuerKeys(issuer.url, AUDIENCE, f"{issuer.url}/keys", clock)


def bare(authorization: str) -> str:
    return authorization.removeprefix("Bearer ")


def with_header(claims: dict[str, Any], header: dict[str, Any], key: Any = OTHER_RSA_KEY) -> str:
    """A token with an RSA signature, whatever the header says."""
    parts = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(claims).encode())}"
    algorithm = RSAAlgorithm(RSAAlgorithm.SHA256)
    return f"Bearer {parts}.{base64url(algorithm.sign(parts.encode(), key))}"


@pytest.mark.parametrize("algorithm", NEVER)
@pytest.mark.parametrize("kid", ["rsa", "ec", "oct"])
def test_no_algorithm_makes_a_secret_of_what_is_public(
    algorithm: str, kid: str, issuer: Issuer, verifier: Verifier
) -> None:
    header, claims = {"alg": algorithm, "kid": kid, "typ": "JWT"}, issuer.claims()
    public = RSA_KEY.public_key()
    known = [
        *(public_pem(), public_pem().strip(), b"", b"null"),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        json.dumps(next(key for key in issuer.keys if key["kid"] == kid)).encode(),
    ]
    forged = [hmac_signed(claims, header, key) for key in known]
    unsigned = forged[0].rpartition(".")[0]
    for token in (*forged, f"{unsigned}.", unsigned):
        with pytest.raises(BadToken):
            verifier.verify(token)


@pytest.mark.parametrize("kid", NO_KEYS, ids=lambda kid: repr(kid)[:20])
def test_the_name_of_a_key_is_a_name_and_nothing_else(kid: Any, issuer: Issuer, verifier: Verifier) -> None:
    """Also if its signature is that of an issuer's key, or of what such a name could be made to find: nothing."""
    header = {"alg": "RS256", "kid": kid}
    for token in (with_header(issuer.claims(), header, RSA_KEY), hmac_signed(issuer.claims(), header, b"")):
        with pytest.raises(BadToken):
            verifier.verify(token)


@pytest.mark.parametrize("kid", [{}, {"kid": "rsa"}, {"kid": "forged"}], ids=["no name", "a known name", "a new name"])
def test_a_key_that_comes_with_the_token_is_never_used_nor_fetched(
    kid: dict[str, str], issuer: Issuer, verifier: Verifier
) -> None:
    elsewhere = f"{issuer.url}/elsewhere"
    named = {**FORGERS_KEY, **kid, "alg": "RS256", "use": "sig"}
    issuer.asked.clear()
    for brought in ({"jwk": named}, {"jku": elsewhere}, {"x5u": elsewhere}, {"x5c": ["MIIB"]}, {"iss": elsewhere}):
        with pytest.raises(BadToken):
            verifier.verify(with_header(issuer.claims(), {"alg": "RS256", **kid, **brought}))
    assert "/elsewhere" not in issuer.asked


@pytest.mark.parametrize("extension", [["exp"], ["b64"], ["x"], [], "x", None, [1]])
def test_a_token_that_wants_more_understood_than_we_do_is_bad(
    extension: Any, issuer: Issuer, verifier: Verifier
) -> None:
    header = {"alg": "RS256", "kid": "rsa", "crit": extension, "b64": False}
    with pytest.raises(BadToken):
        verifier.verify(with_header(issuer.claims(), header, RSA_KEY))


def test_an_issuer_that_is_nearly_ours_is_not_ours(issuer: Issuer, verifier: Verifier) -> None:
    assert verifier.verify(signed(issuer.claims())).user == "anna"
    port = issuer.url.rpartition(":")[2]
    near = [
        f"{issuer.url}/",
        issuer.url.upper(),
        f"http://localhost:{port}",
        f"{issuer.url}.evil.example",
        [issuer.url],
    ]
    for other in near:
        with pytest.raises(BadToken):
            verifier.verify(signed(issuer.claims(iss=other)) if isinstance(other, str) else _with_claim("iss", other))


def _with_claim(name: str, value: Any) -> str:
    """A token of the issuer's key that PyJWT would not make."""
    claims = {"iss": "x", "sub": "anna", "aud": AUDIENCE, "exp": int(time.time()) + 600, name: value}
    return with_header(claims, {"alg": "RS256", "kid": "rsa"}, RSA_KEY)


def test_a_key_that_the_issuer_withdraws_is_soon_worth_nothing(issuer: Issuer) -> None:
    clock = Clock()
    keys, token = keys_of(issuer, clock), bare(signed(issuer.claims()))
    assert keys.claims(token)["sub"] == "anna"
    issuer.keys = [key for key in issuer.keys if key["kid"] != "rsa"]
    clock.now += GOOD_S - 1
    assert keys.claims(token)["sub"] == "anna"
    clock.now += 1
    with pytest.raises(BadToken):
        keys.claims(token)


def test_a_key_that_the_issuer_replaces_under_its_name_is_soon_worth_nothing(issuer: Issuer) -> None:
    clock = Clock()
    keys, old = keys_of(issuer, clock), bare(signed(issuer.claims()))
    assert keys.claims(old)["sub"] == "anna"
    issuer.keys = [{**FORGERS_KEY, "kid": "rsa", "alg": "RS256"}]
    clock.now += GOOD_S
    with pytest.raises(BadToken):
        keys.claims(old)
    assert keys.claims(bare(signed(issuer.claims(), key=OTHER_RSA_KEY)))["sub"] == "anna"


def test_a_new_key_is_found_though_the_others_are_known(issuer: Issuer) -> None:
    clock = Clock()
    keys, token = keys_of(issuer, clock), bare(signed(issuer.claims(), "new", OTHER_RSA_KEY))
    assert keys.claims(bare(signed(issuer.claims())))["sub"] == "anna"
    issuer.keys = [*issuer.keys, {**FORGERS_KEY, "kid": "new", "alg": "RS256"}]
    clock.now += PAUSE_S
    assert keys.claims(token)["sub"] == "anna"


def broken(handler: BaseHTTPRequestHandler) -> None:
    handler.send_error(500)


def huge(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b'{"keys": [' + b" " * (MOST_BYTES + 1) + b"]}")


def dripping(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for longer than anybody wants to wait."""
    handler.send_response(200)
    handler.end_headers()
    ends_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_at:
        handler.wfile.write(b" ")
        handler.wfile.flush()
        handler.connection.settimeout(0.02)
        try:
            if not handler.connection.recv(1):
                return
        except TimeoutError:
            continue


def elsewhere(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "/elsewhere")
    handler.end_headers()


ILL: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {
    "broken": broken,
    "huge": huge,
    "dripping": dripping,
    "elsewhere": elsewhere,
}


@pytest.mark.parametrize("illness", ILL)
def test_a_flood_of_unknown_keys_asks_the_issuer_seldom_however_ill_it_is(
    illness: str, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whoever has a good token does not notice, for as long as an outage may last."""
    clock = Clock()
    keys, good = keys_of(issuer, clock), bare(signed(issuer.claims()))
    assert keys.claims(good)["sub"] == "anna"
    monkeypatch.setattr(issuer_keys, "TIMEOUT_S", 0.2)
    issuer.instead = ILL[illness]
    issuer.asked.clear()
    token = bare(signed(issuer.claims(), "unknown"))
    tokens = [token.replace(token.partition(".")[0], _header(f"unknown {number}")) for number in range(50)]

    def refused(forged: str) -> bool:
        with pytest.raises(BadToken):
            keys.claims(forged)
        return True

    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            clock.now += PAUSE_S
            assert all(pool.map(refused, tokens))
            assert keys.claims(good)["sub"] == "anna"
    assert issuer.asked == ["/keys"] * 2
    clock.now += OUTAGE_S
    with pytest.raises(IssuerUnknown):
        keys.claims(good)


def _header(kid: str) -> str:
    return base64url(json.dumps({"alg": "RS256", "kid": kid}).encode())


def test_an_issuer_that_never_answered_is_asked_seldom_too(issuer: Issuer) -> None:
    issuer.instead = broken
    keys, token = keys_of(issuer, Clock()), bare(signed(issuer.claims()))
    for _ in range(5):
        with pytest.raises(IssuerUnknown):
            keys.claims(token)
    assert issuer.asked == ["/keys"]


def test_an_issuer_whose_keys_are_a_file_is_not_believed(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": issuer.keys}))
    with pytest.raises(IssuerUnknown):
        IssuerKeys(issuer.url, AUDIENCE, file.as_uri()).claims(bare(signed(issuer.claims())))


def me(server: Server, authorization: str | bytes) -> httpx.Response:
    return server.client.get("/me", headers=[(b"Authorization", _bytes(authorization))])


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def local(content: str | dict[str, Any], header: dict[str, Any] | None = None) -> str:
    """A token of the server's own key; as text, the claims need not be JSON that anybody would write."""
    text = content if isinstance(content, str) else json.dumps(content)
    parts = ".".join(
        base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode()
        for part in (json.dumps({"alg": "HS256", **(header or {})}), text)
    )
    signer = jwt.get_algorithm_by_name("HS256")
    return f"Bearer {parts}.{base64url(signer.sign(parts.encode(), signer.prepare_key(JWT_KEY)))}"


def claimed(**changes: Any) -> dict[str, Any]:
    return {"sub": "anna", "org": ["local"], "groups": ALL_GROUPS, "exp": int(time.time()) + 600, **changes}


FORGED: dict[str, Callable[[], str | bytes]] = {
    **{
        f"alg {name!r}": partial(local, {"sub": "anna", "exp": 9e9}, {"alg": name}) for name in NEVER if name != "HS256"
    },
    "a signature of RSA": lambda: with_header(claimed(), {"alg": "RS256"}),
    "a signature of RSA, said to be HMAC": lambda: with_header(claimed(), {"alg": "HS256"}),
    "a key that comes along": lambda: with_header(claimed(), {"alg": "RS256", "jwk": FORGERS_KEY}),
    "a secret that comes along": lambda: hmac_signed(
        claimed(), {"alg": "HS256", "jwk": {"kty": "oct", "k": base64url(b"mine")}}, b"mine"
    ),
    "the secret of an empty file": lambda: hmac_signed(claimed(), {"alg": "HS256", "kid": "/dev/null"}, b""),
    "no signature": lambda: local(claimed()).rpartition(".")[0] + ".",
    "half a signature": lambda: local(claimed())[:-20],
    "no third part": lambda: local(claimed()).rpartition(".")[0],
    "five parts": lambda: local(claimed()) + ".a.b",
    "critical extensions": lambda: local(claimed(), {"crit": ["exp"]}),
    "a body that is not encoded": lambda: local(claimed(), {"b64": False}),
    "two tokens": lambda: f"{local(claimed())}, {local(claimed())}",
    "letters beyond ASCII": lambda: f"{local(claimed())}é".encode("latin-1"),
    "letters of UTF-8": lambda: f"Bearer {'ü' * 40}.{'ü' * 40}.{'ü' * 40}",
    "60 KB of nothing": lambda: f"Bearer {'A' * 60_000}",
    "60 KB of dots": lambda: f"Bearer {'.' * 60_000}",
    "a header of nothing but brackets": lambda: f"Bearer {base64url(b'[' * 40_000)}.e30.e30",
    "claims of nothing but brackets": lambda: local("[" * 40_000),
    "claims that are a list": lambda: local("[]"),
    "organizations as numbers": lambda: local(claimed(org=5)),
    "organizations within a list": lambda: local(claimed(org=[["local"]])),
    "organizations as an object": lambda: local(claimed(org={"local": True})),
    "an organization that is null": lambda: local(claimed(org=[None])),
    "an organization that is true": lambda: local(claimed(org=True)),
    "groups as numbers": lambda: local(claimed(groups=[1])),
    "groups within a list": lambda: local(claimed(groups=[["admins"]])),
    "groups as an object": lambda: local(claimed(groups={"admins": True})),
    "half a character in an organization": lambda: local(claimed(org=["\ud800"])),
    "half a character in a group": lambda: local(claimed(groups=["\ud800"])),
    "half a character in a name": lambda: local(claimed(sub="\ud800")),
    "a name that is a number": lambda: local(claimed(sub=5)),
    "a name that is a list": lambda: local(claimed(sub=["anna"])),
    "a name that is null": lambda: local(claimed(sub=None)),
    "an end that is true": lambda: local(claimed(exp=True)),
    "an end that is a word": lambda: local(claimed(exp="never")),
    "an end that is a list": lambda: local(claimed(exp=[9e9])),
    "an end that is no number": lambda: local('{"sub": "anna", "exp": NaN}'),
    "an end without end": lambda: local('{"sub": "anna", "exp": Infinity}'),
    "an end of too many digits": lambda: local(f'{{"sub": "anna", "exp": {"9" * 5000}}}'),
    "a beginning that is a list": lambda: local(claimed(nbf=[])),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_is_forged_or_makes_no_sense_is_no_token(name: str, server: Server) -> None:
    answer = me(server, FORGED[name]())
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("claims", "organizations"),
    [
        (claimed(org="*"), ["*"]),
        (claimed(org=["*", "?", "%", ".", "local*", "loc?l", "LOCAL", "local ", " local", "local\n"]), None),
        (claimed(org=["\uff4cocal", "local\u200b", "loca\u0307l", "./local", "../local", "local/", "l%6fcal"]), None),
        (claimed(org=""), [""]),
        (claimed(org=[]), []),
    ],
)
def test_an_organization_is_meant_only_by_its_very_name(
    claims: dict[str, Any], organizations: list[str] | None, server: Server
) -> None:
    """No wildcard, no other case, no look-alike, no encoding opens the organization `local`."""
    headers = {"Authorization": local(claims)}
    found = server.client.get("/me", headers=headers)
    assert (found.status_code, found.json()["organizations"]) == (200, organizations or claims["org"])
    plain = server.client.get("/events", headers=headers)
    named = server.client.get("/events", headers={**headers, "X-Organization": "local"})
    in_path = server.client.get("/organizations/local/pushy/jobs", headers=headers)
    assert (plain.status_code, named.status_code, in_path.status_code) == (
        403 if claims["org"] == [] else 404,
        403,
        403,
    )


@pytest.mark.parametrize(
    "sub", ["*", "../ben", "ben\r\nX: y", "\x1b[2J", "x" * 50_000, "<script>", "ben\0", "🦊", "' --"]
)
def test_a_user_may_have_any_name_and_gets_nothing_by_it(sub: str, server: Server) -> None:
    headers = {"Authorization": local(claimed(sub=sub, groups=["readers"]))}
    found = server.client.get("/me", headers=headers)
    assert (found.status_code, found.json()["user"]) == (200, sub)
    assert server.client.get("/users/ben/inbox", headers=headers).status_code == 403
    refused = server.client.get("/events", headers={**headers, "X-Organization": "other"})
    assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")


def test_a_token_of_sixty_kilobytes_is_a_token(server: Server) -> None:
    assert me(server, local(claimed(note="x" * 44_000))).status_code == 200


@pytest.mark.parametrize("order", ["good first", "good last"])
def test_of_two_headers_with_tokens_none_is_chosen(order: str, server: Server) -> None:
    both = [local(claimed(sub="anna")), "Bearer a.b.c"]
    values = both if order == "good first" else both[::-1]
    answer = server.client.get("/me", headers=[("Authorization", value) for value in values])
    assert answer.status_code in (400, 401)


def test_a_key_that_could_be_guessed_from_a_token_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="JWT_KEY: a key of HS256 has 32 characters or more"):
        Server(tmp_path, JWT_KEY="k" * 31)


def short_lived(server: Server, seconds: float) -> Member:
    """Somebody whose token ends soon, in an organization of their own."""
    member = server.organization()
    claims = claimed(org=member.organizations, exp=time.time() + seconds)
    member.__dict__["token"] = bare(local(claims))
    return member


FOLLOWED = {
    "a poll": ("/events?timeout=60s", "application/json"),
    "lines": ("/events?timeout=60s", "application/x-ndjson"),
    "server-sent events": ("/events", "text/event-stream"),
    "the inbox": ("/users/anna/inbox?timeout=60s", "application/json"),
    "a feed of push jobs": ("/organizations/{org}/pushy/job_status_feed", "text/event-stream"),
    "statistics": ("/jobscheduler/master/api/order?return=OrderStatisticsChanged&timeout=60s", "application/json"),
}


def test_who_follows_is_sent_away_when_their_token_ends(server: Server) -> None:
    member = short_lived(server, 2.0)

    def followed(name: str) -> tuple[int, bool]:
        path, accept = FOLLOWED[name]
        path = path.format(org=member.organization)
        began = time.monotonic()
        answer = member.get(path, headers={"Accept": accept}, timeout=PATIENCE_S)
        return answer.status_code, time.monotonic() - began < PATIENCE_S / 2

    with ThreadPoolExecutor(len(FOLLOWED)) as pool:
        assert list(pool.map(followed, FOLLOWED)) == [(200, True)] * len(FOLLOWED)
    assert member.get("/events").status_code == 401


def test_a_stream_with_ever_more_to_tell_ends_with_its_token_too(server: Server) -> None:
    member = short_lived(server, 2.0)
    others = server.member(member.organization)
    headers = {"Accept": "text/event-stream"}
    ends_at = time.monotonic() + PATIENCE_S
    with server.client.stream("GET", "/events", headers={**member.headers, **headers}) as stream:
        others.publish("a")
        pieces = 0
        for _ in stream.iter_text():
            others.publish("a")
            pieces += 1
            assert time.monotonic() < ends_at
    assert pieces > 1
