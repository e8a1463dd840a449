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

from chalicelib.adapters.sqlite.files import create_directory

KEY_FILE = "jwt.key"
TOKEN_LIFETIME_DAYS = 30
MIN_KEY_LENGTH = 32
"""The same limit as on AWS. The holder of a token could find a shorter key by guessing."""


def signing_key(data_dir: Path) -> str:
    """The key of the local server. It is created at the first start, readable only by its owner."""
    path = data_dir / KEY_FILE
    create_directory(data_dir)
    if not path.exists():
        # Write to a temporary file and link it: the key file is never empty, and the first process wins.
        with tempfile.NamedTemporaryFile("w", dir=data_dir, prefix=".key-") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
            with suppress(FileExistsError):
                path.hardlink_to(file.name)
    return path.read_text().strip()


def check_key_length(signing_key: str) -> str:
    """Return the key. Exits if it is too short for HS256."""
    if 0 < len(signing_key) < MIN_KEY_LENGTH:
        sys.exit(f"JWT_KEY is too short: HS256 needs at least {MIN_KEY_LENGTH} characters")
    return signing_key


def sign_token(
    signing_key: str, user: str, organizations: list[str], groups: list[str], now_s: float | None = None
) -> str:
    """A token for the local server, valid for `TOKEN_LIFETIME_DAYS`."""
    issued_s = int(time.time() if now_s is None else now_s)
    expires_s = issued_s + TOKEN_LIFETIME_DAYS * 86400
    claims = {"sub": user, "org": organizations, "groups": groups, "iat": issued_s, "exp": expires_s}
    return jwt.encode(claims, signing_key, algorithm="HS256")


def main() -> None:
    """`make token`."""
    parser = argparse.ArgumentParser(description="Print a token for the local server.")
    parser.add_argument("--user", required=True)
    parser.add_argument("--org", required=True, help="one or more organizations, separated by commas")
    parser.add_argument("--groups", required=True, help="readers, publishers, admins; separated by commas")
    args = parser.parse_args()
    data_dir = Path(os.environ.get("DATA_DIR") or "data")
    key = os.environ.get("JWT_KEY") or signing_key(data_dir)
    print(sign_token(key, args.user, args.org.split(","), args.groups.split(",")))


if __name__ == "__main__":
    main()
