"""The keys that an issuer publishes: asked for seldom, and not trusted for ever."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chalicelib.domain.redaction import described

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

    from jwt import PyJWK

GOOD_S = 300.0
"""So long keys are used without asking again: what the issuer has withdrawn is worth nothing after that."""
PAUSE_S = 10.0
"""The issuer is asked no more often, whatever it answers, and however many tokens name keys that nobody knows."""
OUTAGE_S = 3600.0
"""So long keys are good that cannot be asked for again."""
TIMEOUT_S = 5.0
MOST_BYTES = 1024 * 1024
"""Of what an issuer says; nobody has so many keys."""

Monotonic = Callable[[], float]

_log = logging.getLogger("annals")


class IssuerUnknown(Exception):
    """The issuer has not told its keys, so nobody can say whether a token is good."""


class PublishedKeys:
    """The keys of one issuer. Threads may share it: of those who miss a key one asks, and the others wait for that."""

    def __init__(self, published: Callable[[], Mapping[str, "PyJWK"]], monotonic: Monotonic = time.monotonic) -> None:
        self._published = published
        self._monotonic = monotonic
        self._keys: Mapping[str, PyJWK] = {}
        self._told_at = self._asked_at = float("-inf")
        self._failure: Exception | None = None
        self._turn = threading.Lock()

    def named(self, kid: str) -> "PyJWK | None":
        """The key of this name, None if the issuer has none; `IssuerUnknown` if it never said, or long ago."""
        if self._is_to_be_asked(kid):
            with self._turn:
                if self._is_to_be_asked(kid):
                    self._ask()
        if self._monotonic() - self._told_at > OUTAGE_S:
            raise IssuerUnknown("the issuer does not tell its keys") from self._failure
        return self._keys.get(kid)

    def _is_to_be_asked(self, kid: str) -> bool:
        now = self._monotonic()
        return now - self._asked_at >= PAUSE_S and (kid not in self._keys or now - self._told_at >= GOOD_S)

    def _ask(self) -> None:
        try:
            self._keys = self._published()
            self._told_at, self._failure = self._monotonic(), None
        except Exception as failure:
            self._failure = failure
            _log.warning("the issuer does not tell its keys: %s", described(failure))
        finally:
            self._asked_at = self._monotonic()


def published(url: str) -> dict[str, "PyJWK"]:
    """The keys for signatures that are at `url`, by name, if they have one; redirects are not followed."""
    from urllib.request import HTTPRedirectHandler, build_opener  # noqa: PLC0415  (only who asks needs them)

    import jwt  # noqa: PLC0415

    class Staying(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    if not url.startswith(("https://", "http://")):
        raise ValueError("the issuer's keys are not on the web")
    found = jwt.PyJWKSet.from_dict(_json(build_opener(Staying), url)).keys
    return {key.key_id: key for key in reversed(found) if key.key_id and key.public_key_use in ("sig", None)}


def discovered(issuer: str) -> str:
    """Where the issuer says its keys are."""
    from urllib.request import build_opener  # noqa: PLC0415  (as above)

    return str(_json(build_opener(), f"{issuer.rstrip('/')}/.well-known/openid-configuration")["jwks_uri"])


def _json(opener: "OpenerDirector", url: str) -> dict[str, Any]:
    """The document at `url`, if it comes in time and is of a size that makes sense."""
    import json  # noqa: PLC0415  (as above)
    from urllib.error import HTTPError  # noqa: PLC0415

    ends_at, text = time.monotonic() + TIMEOUT_S, b""
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            while piece := answer.read1(64 * 1024):
                text += piece
                if len(text) > MOST_BYTES or time.monotonic() > ends_at:
                    raise ValueError("the issuer does not come to an end")
    except HTTPError as refusal:
        refusal.close()
        raise
    found: dict[str, Any] = json.loads(text)
    return found
