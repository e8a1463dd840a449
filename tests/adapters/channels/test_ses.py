"""Mail by way of SES: moto's in this process, and one on loopback for what goes wrong."""

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
from chalicelib.domain.errors import NotDelivered, Undeliverable
from tests.adapters.channels import servers, web
from tests.adapters.channels.messages import NOW_MS, a_mail
from tests.torture.stores import REGION

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client


@pytest.fixture
def client(aws_environment: None) -> Iterator["SESV2Client"]:  # noqa: ARG001
    """A client of an SES where example.org may send."""
    with mock_aws():
        opened = ses_client(region=REGION)
        opened.create_email_identity(EmailIdentity="example.org")
        yield opened
        opened.close()


def refusal(port: int) -> NotDelivered:
    """Why the SES at `port` does not take a mail."""
    opened = ses_client(f"http://127.0.0.1:{port}", REGION)
    with pytest.raises(NotDelivered) as raised:
        SesMailer(opened).send(a_mail())
    opened.close()
    return raised.value


def test_a_mail_is_sent_raw_to_its_recipient(client: "SESV2Client") -> None:
    SesMailer(client, clock=lambda: NOW_MS).send(a_mail(title="Büro", recipient="anna@bücher.example"))
    (sent,) = ses_backends[DEFAULT_ACCOUNT_ID][REGION].sent_messages
    assert (sent.source, set(sent.destinations)) == ("annals@example.org", {"anna@xn--bcher-kva.example"})
    found = email.message_from_string(sent.raw_data, policy=email.policy.SMTP)
    assert (found["From"], found["X-Annals-Delivery"]) == ("Büro <annals@example.org>", "1.7.1/ops")


def test_a_mail_from_an_address_that_is_not_verified_is_undeliverable(client: "SESV2Client") -> None:
    with pytest.raises(Undeliverable, match="SES refuses the mail: MessageRejected"):
        SesMailer(client).send(a_mail(sender="annals@elsewhere.example"))


def test_a_18_a_mail_to_nobody_is_undeliverable_and_ses_is_not_asked(client: "SESV2Client") -> None:
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
        ("429 Too Many Requests", "TooManyRequestsException", NotDelivered),
        ("400 Bad Request", "LimitExceededException", NotDelivered),
        ("400 Bad Request", "ThrottlingException", NotDelivered),
        ("400 Bad Request", "SendingPausedException", NotDelivered),
        ("400 Bad Request", "AccountSuspendedException", NotDelivered),
        ("403 Forbidden", "AccessDeniedException", NotDelivered),
        ("403 Forbidden", "ExpiredTokenException", NotDelivered),
        ("500 Internal Server Error", "InternalServiceErrorException", NotDelivered),
        ("503 Service Unavailable", "ServiceUnavailable", NotDelivered),
    ],
)
def test_what_is_about_the_mail_is_for_good_and_all_else_may_pass(
    status: str, code: str, expected: type[NotDelivered]
) -> None:
    body = json.dumps({"message": "because\n" + "x" * 300}).encode()
    script = web.answer(status, f"x-amzn-ErrorType: {code}", "Content-Type: application/json", body=body)
    with servers.scripted(script) as port:
        why = refusal(port)
    reason = f"SES refuses the mail: {code}: because " + "x" * 191 + "…"
    assert (type(why), str(why)) == (expected, reason)


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("script", [servers.close, web.send(b"HTTP/1.1 500 Oops\r\n\r\n"), web.send(b"what?\r\n\r\n")])
def test_a_broken_ses_may_take_the_mail_later(script: servers.Script) -> None:
    with servers.scripted(script) as port:
        assert type(refusal(port)) is NotDelivered


@pytest.mark.usefixtures("aws_environment")
def test_where_no_ses_is_the_mail_may_be_delivered_later() -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert str(refusal(port)).startswith("SES cannot be reached: ")


@pytest.mark.usefixtures("aws_environment")
def test_a_failed_call_is_repeated_once_and_no_more() -> None:
    calls: list[str] = []

    def fail(connection: socket, over: Event) -> None:
        calls.append("send")
        web.answer("500 Internal Server Error")(connection, over)

    with servers.scripted(fail) as port:
        refusal(port)
    assert len(calls) == 2
