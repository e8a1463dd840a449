"""Tickets for browsers, which cannot send a token when they open a report page."""

import secrets
from collections.abc import Callable

from chalicelib.domain.errors import Forbidden

LIFETIME_S = 60
AUDIENCE = "report"


class Tickets:
    """Issues and verifies tickets with a random key of this process. They become invalid when it restarts."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._key = secrets.token_hex(32)

    def issue(self, server: int, name: str) -> str:
        """A ticket for one report of one organization."""
        import jwt  # noqa: PLC0415  (saves 0.1 s of cold start)

        claims = {"aud": AUDIENCE, "server": server, "name": name, "exp": self._clock() // 1000 + LIFETIME_S}
        return jwt.encode(claims, self._key, algorithm="HS256")

    def verify(self, ticket: str, name: str) -> int:
        """Return the log of the ticket's organization. Raises `Forbidden` if the ticket is not valid for `name`."""
        import jwt  # noqa: PLC0415

        try:
            # The expiry is compared with the injected clock below.
            claims = jwt.decode(
                ticket, self._key, algorithms=["HS256"], audience=AUDIENCE, options={"verify_exp": False}
            )
        except jwt.PyJWTError as error:
            raise Forbidden("this link is invalid, or the server has restarted; request a new link") from error
        if claims["name"] != name or claims["exp"] * 1000 <= self._clock():
            raise Forbidden("this link has expired; request a new link")
        return int(claims["server"])
