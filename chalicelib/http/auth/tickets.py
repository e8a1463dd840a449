"""Tickets: what lets a browser read one page, which cannot send a token along."""

import secrets
from collections.abc import Callable

from chalicelib.domain.errors import Forbidden

GOOD_S = 60
AUDIENCE = "report"


class Tickets:
    """Issues tickets and checks them. Only this process knows the key, so nothing else that is signed is a ticket."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._key = secrets.token_hex(32)

    def issue(self, server: int, name: str) -> str:
        """A ticket for a report of an organization; good for a minute."""
        import jwt  # noqa: PLC0415  (0.1 s of cold start that few need)

        claims = {"aud": AUDIENCE, "server": server, "name": name, "exp": self._clock() // 1000 + GOOD_S}
        return jwt.encode(claims, self._key, algorithm="HS256")

    def server(self, ticket: str, name: str) -> int:
        """The log of the organization whose report of this name the ticket is for; raises `Forbidden`."""
        import jwt  # noqa: PLC0415  (as above)

        try:
            # Its end is compared with our own clock below.
            claims = jwt.decode(
                ticket, self._key, algorithms=["HS256"], audience=AUDIENCE, options={"verify_exp": False}
            )
        except jwt.PyJWTError as failure:
            raise Forbidden("this link is none of ours, or of before the server's last start") from failure
        if claims["name"] != name or claims["exp"] * 1000 <= self._clock():
            raise Forbidden("this link is no longer good, ask for another one")
        return int(claims["server"])
