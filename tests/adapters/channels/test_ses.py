"""Mail with SES: moto for success, a server on loopback for failures."""

import email
import email.policy
import json
from collections.abc import Iterator
from socket import create_server, socket
from threading import Event
from typing import TYPE_CHECKING

import pytest
from moto import mock_aws
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ses.models import ses_backends

from chalicelib.adapters.mail.ses import SesMailer, ses_client
from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable
from tests.adapters.channels import servers, web
from tests.adapters.channels.messages import NOW_MS, a_mail
from tests.torture.stores import REGION

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client


@pytest.fixture
def client(aws_environment: None) -> Iterator["SESV2Client"]:  # noqa: ARG001
    """A client of a mocked SES where example.org is verified."""
    with mock_aws():
        opened = ses_client(region=REGION)
        opened.create_email_identity(EmailIdentity="example.org")
        yield opened
        opened.close()


def send_error(port: int) -> NotDelivered:
    """Send a mail to an SES endpoint at `port`, and return the error."""
    opened = ses_client(f"http://127.0.0.1:{port}", REGION)
    with pytest.raises(NotDelivered) as raised:
        SesMailer(opened).send(a_mail())
    opened.close()
    return raised.value


def test_send_sends_raw_message_to_recipient(client: "SESV2Client") -> None:
    SesMailer(client, clock=lambda: NOW_MS).send(a_mail(title="Büro", recipient="anna@bücher.example"))
    (sent,) = ses_backends[DEFAULT_ACCOUNT_ID][REGION].sent_messages
    assert (sent.source, set(sent.destinations)) == ("annals@example.org", {"anna@xn--bcher-kva.example"})
    message = email.message_from_string(sent.raw_data, policy=email.policy.SMTP)
    assert (message["From"], message["X-Annals-Delivery"]) == ("Büro <annals@example.org>", "1.7.1/ops")


def test_send_from_unverified_address_is_undeliverable(client: "SESV2Client") -> None:
    with pytest.raises(Undeliverable, match="SES rejected the mail: MessageRejected"):
        SesMailer(client).send(a_mail(sender="annals@elsewhere.example"))


def test_send_without_recipient_does_not_call_ses(client: "SESV2Client") -> None:
    with pytest.raises(Undeliverable, match=r"^No origin or destination address$"):
        SesMailer(client).send(a_mail(recipient=""))
    assert ses_backends[DEFAULT_ACCOUNT_ID][REGION].sent_messages == []


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        ("400 Bad Request", "MessageRejected", Undeliverable),
        ("400 Bad Request", "MailFromDomainNotVerifiedException", Undeliverable),
        ("400 Bad Request", "BadRequestException", Undeliverable),
        ("404 Not Found", "NotFoundException", Undeliverable),
        ("429 Too Many Requests", "TooManyRequestsException", RateLimited),
        ("400 Bad Request", "ThrottlingException", RateLimited),
        ("400 Bad Request", "LimitExceededException", RateLimited),
        ("400 Bad Request", "SendingPausedException", NotDelivered),
        ("400 Bad Request", "AccountSuspendedException", NotDelivered),
        ("403 Forbidden", "AccessDeniedException", NotDelivered),
        ("403 Forbidden", "ExpiredTokenException", NotDelivered),
        ("500 Internal Server Error", "InternalServiceErrorException", NotDelivered),
        ("503 Service Unavailable", "ServiceUnavailable", NotDelivered),
    ],
)
def test_send_maps_error_codes_to_permanent_or_retryable(status: str, code: str, expected: type[NotDelivered]) -> None:
    body = json.dumps({"message": "because\n" + "x" * 300}).encode()
    script = web.answer(status, f"x-amzn-ErrorType: {code}", "Content-Type: application/json", body=body)
    with servers.scripted(script) as port:
        error = send_error(port)
    reason = f"SES rejected the mail: {code}: because " + "x" * 191 + "…"
    assert (type(error), str(error)) == (expected, reason)


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("script", [servers.close, web.send(b"HTTP/1.1 500 Oops\r\n\r\n"), web.send(b"what?\r\n\r\n")])
def test_send_to_broken_ses_is_retryable(script: servers.Script) -> None:
    with servers.scripted(script) as port:
        assert type(send_error(port)) is NotDelivered


@pytest.mark.usefixtures("aws_environment")
def test_send_without_ses_is_retryable() -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert str(send_error(port)).startswith("SES cannot be reached: ")


@pytest.mark.usefixtures("aws_environment")
def test_failed_call_is_retried_once() -> None:
    calls: list[str] = []

    def fail(connection: socket, over: Event) -> None:
        calls.append("send")
        web.answer("500 Internal Server Error")(connection, over)

    with servers.scripted(fail) as port:
        send_error(port)
    assert len(calls) == 2
