"""AWS Signature Version 4, for requests of the form `POST /` with a body and no query.

The signature covers the body and all headers. Its key is derived from the secret key, the day, the region and the
service.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

_ALGORITHM = "AWS4-HMAC-SHA256"
_MAX_CACHED_KEYS = 16


@dataclass(frozen=True, slots=True)
class Credentials:
    """AWS credentials."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    """The session token of temporary credentials, such as those of Lambda functions."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The region and service for which a signature is valid."""

    region: str
    service: str


def sign(
    headers: Mapping[str, str], body: bytes, credentials: Credentials, scope: Scope, now_s: float
) -> dict[str, str]:
    """Return `headers` with date, token and signature. Their names must be in lower case and include `host`."""
    timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
    signed_headers = {**headers, "x-amz-date": timestamp}
    if credentials.token:
        signed_headers["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(signed_headers))
    canonical_request = "\n".join(
        (
            "POST",
            "/",
            "",
            *(f"{name}:{' '.join(signed_headers[name].split())}" for name in sorted(signed_headers)),
            "",
            names,
            _sha256(body),
        )
    )
    credential_scope = f"{timestamp[:8]}/{scope.region}/{scope.service}/aws4_request"
    string_to_sign = f"{_ALGORITHM}\n{timestamp}\n{credential_scope}\n{_sha256(canonical_request.encode())}"
    signature = _hmac(_signing_key(credentials.secret_key, timestamp[:8], scope), string_to_sign).hex()
    signed_headers["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{credential_scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return signed_headers


@lru_cache(_MAX_CACHED_KEYS)
def _signing_key(secret_key: str, day: str, scope: Scope) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (day, scope.region, scope.service, "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
