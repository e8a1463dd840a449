"""Tokens: who says they are whom, and can prove it."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from chalicelib.http.auth.issuer_keys import Monotonic, PublishedKeys, discovered, published

if TYPE_CHECKING:
    from jwt import PyJWK

ISSUER_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"})
"""What an issuer may sign with. Never HS256: its public key would be the secret."""

_REQUIRED = ["exp", "sub"]


class BadToken(Exception):
    """The token proves nothing; the message is for our log, not for the caller."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a good token says."""

    user: str
    organizations: tuple[str, ...]
    groups: tuple[str, ...]
    expires_s: int


class _Keys(Protocol):
    def claims(self, token: str) -> dict[str, Any]: ...


class Verifier:
    """Checks tokens with one kind of keys."""

    def __init__(self, keys: _Keys, org_claim: str, groups_claim: str) -> None:
        self._keys = keys
        self._org_claim = org_claim
        self._groups_claim = groups_claim

    def verify(self, authorization: str) -> Claims:
        """The claims of an `Authorization: Bearer …` header, or `BadToken`."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise BadToken("no bearer token")
        claims = self._keys.claims(token.strip())
        return Claims(
            user=_text(claims["sub"]),
            organizations=_texts(claims.get(self._org_claim, [])),
            groups=_texts(claims.get(self._groups_claim, [])),
            expires_s=int(claims["exp"]),
        )


class LocalKey:
    """Tokens signed with this installation's own key (HS256)."""

    def __init__(self, key: str) -> None:
        self._key = key

    def claims(self, token: str) -> dict[str, Any]:
        """The token's claims, if its signature and times are good."""
        import jwt  # noqa: PLC0415  (0.1 s of cold start that only the authorizer needs)

        try:
            return jwt.decode(
                token, self._key, algorithms=["HS256"], options={"require": _REQUIRED, "verify_aud": False}
            )
        except (jwt.PyJWTError, UnicodeError) as failure:
            raise BadToken(str(failure)) from failure


class IssuerKeys:
    """Tokens signed by an OIDC issuer, such as Cognito, with keys it publishes."""

    def __init__(self, issuer: str, audience: str, jwks_url: str, monotonic: Monotonic = time.monotonic) -> None:
        self._issuer = issuer
        self._audience = audience
        self._jwks_url = jwks_url
        self._keys = PublishedKeys(self._published, monotonic)

    def claims(self, token: str) -> dict[str, Any]:
        """The token's claims, if the issuer signed it for us and its times are good."""
        import jwt  # noqa: PLC0415  (as above)

        key = self._key(token)
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=self._issuer,
                options={"require": [*_REQUIRED, "iss"], "verify_aud": False},
            )
        except jwt.PyJWTError as failure:
            raise BadToken(str(failure)) from failure
        self._check_audience(claims)
        return claims

    def _key(self, token: str) -> "PyJWK":
        """The issuer's key of the token's name; what cannot be good by its looks is not worth asking the issuer."""
        import jwt  # noqa: PLC0415  (as above)

        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, UnicodeError) as failure:
            raise BadToken(str(failure)) from failure
        if header.get("alg") not in ISSUER_ALGORITHMS or "kid" not in header:
            raise BadToken("the token names no key of an issuer")
        key = self._keys.named(header["kid"])
        if key is None or key.algorithm_name not in ISSUER_ALGORITHMS:
            raise BadToken("the issuer has no such key for signatures")
        return key

    def _check_audience(self, claims: dict[str, Any]) -> None:
        # Cognito's access tokens carry client_id and no aud.
        named = _texts(claims.get("aud", [])) + _texts(claims.get("client_id", []))
        if self._audience and self._audience not in named:
            raise BadToken("the token is for another audience")

    def _published(self) -> dict[str, "PyJWK"]:
        self._jwks_url = self._jwks_url or discovered(self._issuer)
        return published(self._jwks_url)


def _text(value: object) -> str:
    if not _is_text(value) or not value:
        raise BadToken("sub is no text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    """A claim that is a name or a list of names."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(map(_is_text, names)):
        raise BadToken("a claim is neither a name nor a list of names")
    return tuple(names)


def _is_text(value: object) -> TypeGuard[str]:
    """Tell whether this is text that can be written down: JSON may have halves of characters in it."""
    return isinstance(value, str) and (value.isascii() or value.encode(errors="replace").decode() == value)
