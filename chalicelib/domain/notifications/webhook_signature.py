"""Signatures of webhooks as in the specification Standard Webhooks, with HMAC-SHA256."""

import binascii
import hmac
from base64 import b64decode, b64encode

PREFIX = "whsec_"
MIN_SECRET_BYTES = 24
MAX_SECRET_BYTES = 64


def format_secret(key: bytes) -> str:
    """The secret as people and libraries exchange it."""
    return PREFIX + b64encode(key).decode()


def parse_secret(secret: str) -> bytes:
    """The key of a secret. Raises `ValueError`, without the secret in its message."""
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
        raise ValueError(
            f"config.secret: a secret is '{PREFIX}' and {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes in base64; "
            "leave it out to get a new one"
        )
    return key


def signature_headers(secret: str, delivery_id: str, time_s: int, body: bytes) -> dict[str, str]:
    """The headers of a request with this body. Raises `ValueError` if the secret is not valid.

    Every try of a delivery has the same `webhook-id`. The dots of the delivery's id are colons in it, because the
    signed text separates its parts with dots.
    """
    message_id = delivery_id.replace(".", ":")
    digest = hmac.digest(parse_secret(secret), f"{message_id}.{time_s}.".encode() + body, "sha256")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(time_s),
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }
