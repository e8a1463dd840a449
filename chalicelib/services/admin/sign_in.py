"""Signing in: a code that was printed at the start becomes a token, once."""

import secrets
import threading

from chalicelib.domain.errors import Forbidden


class SigningIn:
    """Keeps the code and the token that it stands for. Nobody can sign in before something is offered."""

    def __init__(self) -> None:
        self._offered: tuple[bytes, str] | None = None
        self._turn = threading.Lock()

    def offer(self, token: str) -> str:
        """A new code for the token; the one before is worth nothing from now on."""
        code = secrets.token_urlsafe(24)
        with self._turn:
            self._offered = code.encode(), token
        return code

    def take(self, code: str) -> str:
        """The token that the code stands for; of several who come with it, one gets it."""
        with self._turn:
            if self._offered is None or not secrets.compare_digest(self._offered[0], code.encode(errors="replace")):
                raise Forbidden("this code is wrong, or somebody has signed in with it: each works once")
            _, token = self._offered
            self._offered = None
            return token
