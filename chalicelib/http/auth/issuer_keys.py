"""Cache of the public keys of an OIDC issuer.

Threads: any thread may call `KeyCache.key`.
Locks: `_refresh_lock` ensures that only one thread at a time requests the keys. The others wait for its result.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chalicelib.domain.errors import Unavailable
from chalicelib.domain.redaction import safe_description

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

    from jwt import PyJWK

REFRESH_INTERVAL_S = 300.0
"""Maximum age of cached keys. A revoked key stops working after this time."""
MIN_REQUEST_INTERVAL_S = 10.0
"""Minimum time between requests to the issuer, even if they fail or tokens name unknown keys."""
MAX_STALE_S = 3600.0
"""How long cached keys stay valid while the issuer is unreachable."""
REQUEST_TIMEOUT_S = 5.0
MAX_DOCUMENT_BYTES = 1024 * 1024

Monotonic = Callable[[], float]

_log = logging.getLogger("annals")


class KeyCache:
    """The keys of one issuer. Thread-safe."""

    def __init__(self, fetch: Callable[[], Mapping[str, "PyJWK"]], monotonic: Monotonic = time.monotonic) -> None:
        self._fetch = fetch
        self._monotonic = monotonic
        self._keys: Mapping[str, PyJWK] = {}
        self._fetched_at = self._requested_at = float("-inf")
        self._failure: Exception | None = None
        self._refresh_lock = threading.Lock()

    def key(self, kid: str) -> "PyJWK | None":
        """The key with this id, or None if the issuer does not have it.

        Raises `Unavailable` if the cached keys are too old, or if they lack this key and could not be fetched again:
        the issuer may have a new one. The caller may retry.
        """
        called_at = self._monotonic()
        if self._needs_refresh(kid):
            with self._refresh_lock:
                if self._needs_refresh(kid):
                    self._refresh()
        key = self._keys.get(kid)
        if self._fetched_at < (called_at if key is None else self._monotonic() - MAX_STALE_S):
            raise Unavailable("the keys of the token's issuer are not available; retry") from self._failure
        return key

    def _needs_refresh(self, kid: str) -> bool:
        now = self._monotonic()
        return now - self._requested_at >= MIN_REQUEST_INTERVAL_S and (
            kid not in self._keys or now - self._fetched_at >= REFRESH_INTERVAL_S
        )

    def _refresh(self) -> None:
        started_at = self._monotonic()
        try:
            self._keys = self._fetch()
            self._fetched_at, self._failure = started_at, None
        except Exception as error:
            self._failure = error
            _log.warning("cannot fetch the issuer's keys: %s", safe_description(error))
        finally:
            self._requested_at = self._monotonic()


def fetch_keys(url: str) -> dict[str, "PyJWK"]:
    """The signature keys at `url`, by id. Redirects are not followed."""
    from urllib.request import HTTPRedirectHandler, build_opener  # noqa: PLC0415  (needed rarely)

    import jwt  # noqa: PLC0415

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    if not url.startswith(("https://", "http://")):
        raise ValueError("the URL of the issuer's keys must begin with https:// or http://")
    keys = jwt.PyJWKSet.from_dict(_fetch_json(build_opener(NoRedirects), url)).keys
    return {key.key_id: key for key in reversed(keys) if key.key_id and key.public_key_use in ("sig", None)}


def discover_jwks_url(issuer: str) -> str:
    """The URL of the issuer's keys, from its OpenID configuration."""
    from urllib.request import build_opener  # noqa: PLC0415

    return str(_fetch_json(build_opener(), f"{issuer.rstrip('/')}/.well-known/openid-configuration")["jwks_uri"])


def _fetch_json(opener: "OpenerDirector", url: str) -> dict[str, Any]:
    """The JSON document at `url`. Limits the total time and the size."""
    import json  # noqa: PLC0415
    from urllib.error import HTTPError  # noqa: PLC0415

    deadline, text = time.monotonic() + REQUEST_TIMEOUT_S, b""
    try:
        with opener.open(url, timeout=REQUEST_TIMEOUT_S) as response:
            while piece := response.read1(64 * 1024):
                text += piece
                if len(text) > MAX_DOCUMENT_BYTES or time.monotonic() > deadline:
                    raise ValueError("the issuer's response is too large or too slow")
    except HTTPError as error:
        error.close()
        raise
    document: dict[str, Any] = json.loads(text)
    return document
