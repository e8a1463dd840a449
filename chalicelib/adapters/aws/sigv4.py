"""Signatures, version 4: who calls, proven with a secret that is not sent.

All our requests are alike, `POST /` with a body and without a query, and so is this. What is signed is a text made of
the request, every header included; the key is the secret, bound to a day, a region and a service.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

_ALGORITHM = "AWS4-HMAC-SHA256"
_KEYS = 16
"""So many keys of days, regions and services are remembered."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who calls."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    """Of a session, as all functions have one."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a signature is good for."""

    region: str
    service: str


def signed(
    headers: Mapping[str, str], body: bytes, credentials: Credentials, scope: Scope, now_s: float
) -> dict[str, str]:
    """The headers, named in lower case as they are given, with those that sign them; `host` has to be among them."""
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
    whole = {**headers, "x-amz-date": at}
    if credentials.token:
        whole["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(whole))
    request = "\n".join(
        (
            "POST",
            "/",
            "",
            *(f"{name}:{' '.join(whole[name].split())}" for name in sorted(whole)),
            "",
            names,
            _hash(body),
        )
    )
    good_for = f"{at[:8]}/{scope.region}/{scope.service}/aws4_request"
    text = f"{_ALGORITHM}\n{at}\n{good_for}\n{_hash(request.encode())}"
    signature = _keyed(_key(credentials.secret_key, at[:8], scope), text).hex()
    whole["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{good_for}, SignedHeaders={names}, Signature={signature}"
    )
    return whole


@lru_cache(_KEYS)
def _key(secret_key: str, day: str, scope: Scope) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (day, scope.region, scope.service, "aws4_request"):
        key = _keyed(key, part)
    return key


def _keyed(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
