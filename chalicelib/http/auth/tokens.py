"""Verification of bearer tokens (JWT)."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from chalicelib.http.auth.issuer_keys import KeyCache, Monotonic, discover_jwks_url, fetch_keys

if TYPE_CHECKING:
    from jwt import PyJWK

ISSUER_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"})
"""Allowed signature algorithms of issuers. Never HS256: the public key would be the secret."""

LEEWAY_S = 30
"""How far the clocks of the issuer and of this machine may differ when `exp`, `nbf` and `iat` are checked."""

_REQUIRED = ["exp", "sub"]


class BadToken(Exception):
    """The token is invalid. The message is for the log, not for the caller."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a valid token. It is accepted until `LEEWAY_S` after `expires_s`."""

    user: str
    organizations: tuple[str, ...]
    groups: tuple[str, ...]
    expires_s: int


class _Keys(Protocol):
    def claims(self, token: str) -> dict[str, Any]: ...


class Verifier:
    """Verifies tokens with one kind of keys."""

    def __init__(self, keys: _Keys, org_claim: str, groups_claim: str) -> None:
        self._keys = keys
        self._org_claim = org_claim
        self._groups_claim = groups_claim

    def verify(self, authorization: str) -> Claims:
        """The claims of an `Authorization: Bearer …` header.

        Raises `BadToken`, or `Unavailable` if the issuer's keys are not available.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise BadToken("no bearer token")
        claims = self._keys.claims(token.strip())
        return Claims(
            user=_parse_text(claims["sub"]),
            organizations=_parse_names(claims.get(self._org_claim, [])),
            groups=_parse_names(claims.get(self._groups_claim, [])),
            expires_s=int(claims["exp"]),
        )


class LocalKey:
    """Tokens signed with this installation's own key (HS256)."""

    def __init__(self, key: str) -> None:
        self._key = key

    def claims(self, token: str) -> dict[str, Any]:
        import jwt  # noqa: PLC0415  (takes 0.1 s of cold start, and few functions verify tokens)

        try:
            return jwt.decode(
                token,
                self._key,
                algorithms=["HS256"],
                leeway=LEEWAY_S,
                options={"require": _REQUIRED, "verify_aud": False},
            )
        except (jwt.PyJWTError, UnicodeError) as error:
            raise BadToken(str(error)) from error


class IssuerKeys:
    """Tokens signed by an OIDC issuer, such as Cognito."""

    def __init__(self, issuer: str, audience: str, jwks_url: str, monotonic: Monotonic = time.monotonic) -> None:
        self._issuer = issuer
        self._audience = audience
        self._jwks_url = jwks_url
        self._keys = KeyCache(self._fetch_keys, monotonic)

    def claims(self, token: str) -> dict[str, Any]:
        # A token that its own claims exclude is refused without a request to the issuer.
        self._decode(token, None)
        return self._decode(token, self._signing_key(token))

    def _decode(self, token: str, key: "PyJWK | None") -> dict[str, Any]:
        """The claims of the token. Without a key, only its expiry, issuer and audience are checked."""
        import jwt  # noqa: PLC0415

        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key or "",
                algorithms=None if key is None else [key.algorithm_name],
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={
                    "verify_signature": key is not None,
                    "verify_exp": True,
                    "verify_iss": True,
                    "verify_aud": False,
                    "require": [*_REQUIRED, "iss"],
                },
            )
        except (jwt.PyJWTError, UnicodeError) as error:
            raise BadToken(str(error)) from error
        self._check_audience(claims)
        return claims

    def _signing_key(self, token: str) -> "PyJWK":
        """The issuer's key for this token. Malformed tokens are refused without a request to the issuer."""
        import jwt  # noqa: PLC0415

        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, UnicodeError) as error:
            raise BadToken(str(error)) from error
        if header.get("alg") not in ISSUER_ALGORITHMS or "kid" not in header:
            raise BadToken("the token has no key id or a forbidden algorithm")
        key = self._keys.key(header["kid"])
        if key is None or key.algorithm_name not in ISSUER_ALGORITHMS:
            raise BadToken("the issuer has no such signature key")
        return key

    def _check_audience(self, claims: dict[str, Any]) -> None:
        # Access tokens of Cognito have client_id instead of aud.
        audiences = _parse_names(claims.get("aud", [])) + _parse_names(claims.get("client_id", []))
        if self._audience and self._audience not in audiences:
            raise BadToken("the token is for another audience")

    def _fetch_keys(self) -> dict[str, "PyJWK"]:
        self._jwks_url = self._jwks_url or discover_jwks_url(self._issuer)
        return fetch_keys(self._jwks_url)


def _parse_text(value: object) -> str:
    if not _is_encodable_text(value) or not value:
        raise BadToken("sub is not text")
    return value


def _parse_names(value: object) -> tuple[str, ...]:
    """The names in a claim, which is a name or a list of names."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(map(_is_encodable_text, names)):
        raise BadToken("a claim is neither a name nor a list of names")
    return tuple(names)


def _is_encodable_text(value: object) -> TypeGuard[str]:
    """Whether the value is text that can be encoded. JSON may contain single surrogates."""
    return isinstance(value, str) and (value.isascii() or value.encode(errors="replace").decode() == value)
