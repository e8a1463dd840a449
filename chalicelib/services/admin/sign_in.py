"""Sign in to the console with a one-time code that the server prints when it starts."""

import secrets
import threading

from chalicelib.domain.errors import Forbidden


class SignIn:
    """Holds one code and its token. Thread-safe: `_lock` protects both."""

    def __init__(self) -> None:
        self._code_and_token: tuple[bytes, str] | None = None
        self._lock = threading.Lock()

    def issue_code(self, token: str) -> str:
        """Return a new code for `token`. The previous code becomes invalid."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            self._code_and_token = code.encode(), token
        return code

    def redeem(self, code: str) -> str:
        """Return the token of a code, once. Raises `Forbidden` if the code is invalid."""
        with self._lock:
            if self._code_and_token is None:
                raise Forbidden(_INVALID_CODE)
            valid_code, token = self._code_and_token
            if not secrets.compare_digest(valid_code, code.encode(errors="replace")):
                raise Forbidden(_INVALID_CODE)
            self._code_and_token = None
            return token


_INVALID_CODE = "this sign-in code is invalid or was already used. Restart the server to get a new one"
