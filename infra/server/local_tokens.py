"""Tokens of the local server, signed with the key in its data directory."""

import argparse
import os
import secrets
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import jwt

KEY_FILE = "jwt.key"
DAYS = 30
SHORTEST_KEY = 32
"""As on AWS: whoever has a token could guess a shorter one."""


def key(data_dir: Path) -> str:
    """The local server's key; made at first, readable by its owner only."""
    path = data_dir / KEY_FILE
    data_dir.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        # Written elsewhere and then linked: the file is never seen without its content, and the first one wins.
        with tempfile.NamedTemporaryFile("w", dir=data_dir, prefix=".key-") as made:
            made.write(secrets.token_hex(32) + "\n")
            made.flush()
            os.fsync(made.fileno())
            with suppress(FileExistsError):
                path.hardlink_to(made.name)
    return path.read_text().strip()


def checked(signing_key: str) -> str:
    """The key itself, or the end of the process if it is too short for HS256."""
    if 0 < len(signing_key) < SHORTEST_KEY:
        sys.exit(f"JWT_KEY: a key of HS256 has {SHORTEST_KEY} characters or more")
    return signing_key


def token(signing_key: str, user: str, organizations: list[str], groups: list[str], now_s: float | None = None) -> str:
    """A token for the local server."""
    issued_s = int(time.time() if now_s is None else now_s)
    claims = {"sub": user, "org": organizations, "groups": groups, "iat": issued_s, "exp": issued_s + DAYS * 86400}
    return jwt.encode(claims, signing_key, algorithm="HS256")


def main() -> None:
    """`make token`."""
    parser = argparse.ArgumentParser(description="Print a token for the local server.")
    parser.add_argument("--user", required=True)
    parser.add_argument("--org", required=True, help="one or more, separated by commas")
    parser.add_argument("--groups", required=True, help="of readers, publishers, admins; separated by commas")
    args = parser.parse_args()
    data_dir = Path(os.environ.get("DATA_DIR") or "data")
    print(token(os.environ.get("JWT_KEY") or key(data_dir), args.user, args.org.split(","), args.groups.split(",")))


if __name__ == "__main__":
    main()
