"""Mail by way of Amazon SES."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.adapters.mail.message import Clock, envelope, message, now_ms
from chalicelib.adapters.templates.text import said
from chalicelib.domain.errors import NotDelivered, Undeliverable
from chalicelib.domain.notifications.delivery import Mail

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client

CONNECT_TIMEOUT_S = 2
READ_TIMEOUT_S = 10
ATTEMPTS = 2

_FOR_GOOD = {
    "BadRequestException",
    "InvalidParameterValue",
    "MailFromDomainNotVerified",
    "MailFromDomainNotVerifiedException",
    "MessageRejected",
    "NotFoundException",
    "ValidationException",
}
"""Error codes that speak of this mail; all others are of the account or of the moment."""


class SesMailer:
    """Sends each mail as one raw message; SES gives it a Message-ID of its own, X-Annals-Delivery stays."""

    def __init__(self, client: SESV2Client, clock: Clock = now_ms) -> None:
        self._client = client
        self._clock = clock

    def send(self, mail: Mail) -> None:
        """Hand `mail` to SES, or raise `NotDelivered`; `Undeliverable` if it refuses this very mail."""
        sender, recipient = envelope(mail)
        content = message(mail, self._clock()).as_bytes()
        try:
            self._client.send_email(
                FromEmailAddress=sender,
                Destination={"ToAddresses": [recipient]},
                Content={"Raw": {"Data": content}},
            )
        except ClientError as failure:
            raise _refusal(failure) from failure
        except BotoCoreError as failure:
            raise NotDelivered(f"SES cannot be reached: {said(str(failure))}") from failure


def ses_client(endpoint_url: str | None = None, region: str | None = None) -> SESV2Client:
    """A client for the whole process; threads may share it. It gives up soon: a delivery is tried again anyway."""
    # boto3 takes a third of a second to import: only who talks to SES pays that.
    import boto3  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    client: SESV2Client = boto3.client(
        "sesv2",
        endpoint_url=endpoint_url,
        region_name=region,
        config=Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        ),
    )
    return client


def _refusal(failure: ClientError) -> NotDelivered:
    error = failure.response["Error"]
    reason = f"SES refuses the mail: {error['Code']}: {said(error.get('Message', ''))}"
    return Undeliverable(reason) if error["Code"] in _FOR_GOOD else NotDelivered(reason)
