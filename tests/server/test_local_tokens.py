"""Tokens of the local server."""

import jwt

from infra.server.local_tokens import sign_token

KEY = "k" * 32
DAY_S = 24 * 3600


def test_token_is_valid_for_thirty_days() -> None:
    token = sign_token(KEY, "anna", ["acme"], ["readers"], now_s=1_000.9)
    claims = jwt.decode(token, KEY, algorithms=["HS256"], options={"verify_exp": False})
    assert claims == {"sub": "anna", "org": ["acme"], "groups": ["readers"], "iat": 1_000, "exp": 1_000 + 30 * DAY_S}
