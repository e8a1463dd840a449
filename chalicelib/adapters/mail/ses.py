"""Sends mail with Amazon SES."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.adapters.mail.message import Clock, build_message, envelope, now_ms
from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable
from chalicelib.domain.notifications.delivery import Mail

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client

CONNECT_TIMEOUT_S = 2
READ_TIMEOUT_S = 10
MAX_ATTEMPTS = 2

_PERMANENT_ERRORS = {
    "BadRequestException",
    "InvalidParameterValue",
    "MailFromDomainNotVerified",
    "MailFromDomainNotVerifiedException",
    "MessageRejected",
    "NotFoundException",
    "ValidationException",
}
"""Error codes about the mail itself. All others are about the account or temporary: retry."""

_RATE_LIMIT_ERRORS = {
    "LimitExceededException",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
"""Error codes for the sending rate, the daily quota, and the rate of API calls."""


class SesMailer:
    """Sends each mail as a raw message. SES replaces the Message-ID, but keeps X-Annals-Delivery."""

    def __init__(self, client: SESV2Client, clock: Clock = now_ms) -> None:
        self._client = client
        self._clock = clock

    def send(self, mail: Mail) -> None:
        """Raises `NotDelivered`, `RateLimited`, or `Undeliverable` if SES rejects the mail itself."""
        sender, recipient = envelope(mail)
        content = build_message(mail, self._clock()).as_bytes()
        try:
            self._client.send_email(
                FromEmailAddress=sender,
                Destination={"ToAddresses": [recipient]},
                Content={"Raw": {"Data": content}},
            )
        except ClientError as error:
            raise _delivery_error(error) from error
        except BotoCoreError as error:
            raise NotDelivered(f"SES cannot be reached: {shorten_reason(str(error))}") from error


def ses_client(endpoint_url: str | None = None, region: str | None = None) -> SESV2Client:
    """A client that threads may share. Its timeouts are short, because deliveries are retried anyway."""
    # Importing boto3 takes a third of a second, and only functions that send mail need it.
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    client: SESV2Client = boto3.client(
        "sesv2",
        endpoint_url=endpoint_url,
        region_name=region,
        config=Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
        ),
    )
    return client


def _delivery_error(error: ClientError) -> NotDelivered:
    details = error.response["Error"]
    reason = f"SES rejected the mail: {details['Code']}: {shorten_reason(details.get('Message', ''))}"
    if details["Code"] in _PERMANENT_ERRORS:
        return Undeliverable(reason)
    return RateLimited(reason) if details["Code"] in _RATE_LIMIT_ERRORS else NotDelivered(reason)
