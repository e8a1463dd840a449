"""Tokens for the server on this machine, signed with the key in its data directory."""

import base64
import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path

KEY_FILE = "jwt.key"
DAYS = 30
HOW = """There is no key of a local server in {data_dir}. Run this where the server runs, or give --data-dir.
The tokens of an installation with OIDC_ISSUER, as on AWS, come from that issuer: sign in there, then
  export ANNALS_TOKEN=<the token>"""


def local_key(data_dir: Path, environment_key: str | None) -> str | None:
    """The key of the server on this machine, if it is known here."""
    if environment_key:
        return environment_key
    path = data_dir / KEY_FILE
    return path.read_text().strip() if path.exists() else None


def signed(key: str, user: str, organizations: Sequence[str], groups: Sequence[str], now_s: int) -> str:
    """A JWT, HS256."""
    claims = {"sub": user, "org": list(organizations), "groups": list(groups)}
    times = {"iat": now_s, "exp": now_s + DAYS * 86400}
    content = f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{_encoded({**claims, **times})}"
    signature = hmac.digest(key.encode(), content.encode(), hashlib.sha256)
    return f"{content}.{_base64(signature)}"


def _encoded(value: object) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
