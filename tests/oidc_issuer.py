"""A local OIDC issuer, and valid and forged tokens."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from chalicelib import wiring
from chalicelib.http.auth.tokens import Verifier
from chalicelib.settings import Settings
from tests.serving import TIMEOUT_S

AUDIENCE = "annals"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
SHARED_SECRET = "a secret that an issuer should never publish"
EXPIRES_S = int(time.time()) + 24 * 3600


class Issuer:
    """A local OIDC issuer."""

    def __init__(self) -> None:
        issuer = self
        self.requests: list[str] = []
        self.is_requested = threading.Event()
        self.may_respond = threading.Event()
        self.may_respond.set()
        self.respond: Callable[[BaseHTTPRequestHandler], None] | None = None
        """Replaces the response with the keys."""
        self.keys: list[dict[str, Any]] = [
            {**RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True), "kid": "rsa", "use": "sig", "alg": "RS256"},
            {**ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True), "kid": "ec", "use": "sig"},
            {"kty": "oct", "kid": "oct", "alg": "HS256", "k": base64url(SHARED_SECRET.encode())},
        ]

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests.append(self.path)
                issuer.is_requested.set()
                issuer.may_respond.wait(TIMEOUT_S)
                documents: dict[str, object] = {
                    "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"},
                    "/keys": {"keys": issuer.keys},
                }
                if issuer.respond is not None and self.path == "/keys":
                    issuer.respond(self)
                    return
                document = documents.get(self.path)
                self.send_response(404 if document is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """No output."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a valid token, with changes. None removes a claim."""
        valid = {
            "iss": self.url,
            "sub": "anna",
            "aud": AUDIENCE,
            "exp": EXPIRES_S,
            "org": ["acme", "other"],
            "groups": ["readers"],
        }
        return {name: value for name, value in {**valid, **changes}.items() if value is not None}

    def verifier(self, **environment: str) -> Verifier:
        """The verifier of a process with this environment."""
        settings = {"OIDC_ISSUER": self.url, "OIDC_AUDIENCE": AUDIENCE, **environment}
        return wiring.build_verifier(Settings.from_environment(settings))


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(claims: dict[str, Any], kid: str | None = "rsa", key: Any = RSA_KEY, algorithm: str = "RS256") -> str:
    """An Authorization header with a token."""
    return f"Bearer {jwt.encode(claims, key, algorithm, headers={} if kid is None else {'kid': kid})}"


def sign_with_hmac(claims: dict[str, Any], header: dict[str, Any], key: bytes) -> str:
    """A token signed with HMAC."""
    parts = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(claims).encode())}"
    return f"Bearer {parts}.{base64url(hmac.new(key, parts.encode(), hashlib.sha256).digest())}"


def public_pem() -> bytes:
    return RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
