"""Replies of real mail servers: which ones are rate limits."""

import pytest

from chalicelib.adapters.mail.smtp import SmtpMailer
from chalicelib.adapters.mail.smtp_replies import is_rate_limit
from chalicelib.domain.errors import NotDelivered, RateLimited
from tests.adapters.channels import servers
from tests.adapters.channels.messages import a_mail
from tests.adapters.channels.servers import Mailbox, mail_server, scripted

RATE_LIMITS = [
    # Gmail
    "421 4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from your IP address.",
    "421 4.7.0 Our system has detected an unusual rate of unsolicited mail originating from your IP address.",
    "421 4.4.5 Server busy, try again later.",
    "450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages",
    "450 4.2.1 Peak SMTP relay limit exceeded for customer. This is a temporary error.",
    "550 5.4.5 Daily user sending limit exceeded. For more information on Gmail sending limits go to https://x",
    # Outlook and Exchange
    "451 4.7.500 Server busy. Please try again later from [192.0.2.1]. (S77719)",
    "451 4.7.651 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation.",
    "421 RP-001 (SNT004) Some messages weren't sent. We have limits for how many messages can be sent per hour.",
    "432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded [Hostname=AM0PR0.example.com]",
    "432 4.3.2 Concurrent connections limit exceeded.",
    "550 5.1.90 Your message can't be sent because you've reached your daily limit for message recipients",
    # Postfix
    "450 4.7.1 Error: too much mail from 192.0.2.1",
    "450 4.7.1 Error: too many recipients from 192.0.2.1",
    "421 4.7.0 mx.example.org Error: too many connections from 192.0.2.1",
    "421 4.7.0 mx.example.org Error: too many messages in this session",
    # SES
    "454 Throttling failure: Maximum sending rate exceeded",
    "454 Throttling failure: Daily message quota exceeded",
    "421 Too many concurrent SMTP connections",
    # Others
    "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume or user complaints",
    "452 4.3.2 Connection rate limit exceeded.",
    "451 Sender exceeded the hourly sending limit",
]
OTHER_REPLIES = [
    # Gmail
    "421 4.3.0 Temporary System Problem. Try again later",
    "421 4.7.0 TLS required for RCPT domain, closing connection.",
    "421 4.7.0 IP not in whitelist for RCPT domain, closing connection.",
    "452 4.2.2 The email account that you tried to reach is over quota.",
    "452 4.5.3 Domain policy size per transaction exceeded, please try this recipient in a separate transaction.",
    "454 4.7.0 Cannot authenticate due to a temporary system problem. Try again later.",
    "550 5.1.1 The email account that you tried to reach does not exist.",
    "552 5.2.3 Your message exceeded Google's message size limits.",
    # Outlook and Exchange
    "421 4.7.66 TLS 1.0 and 1.1 are not supported. Please upgrade your client to support TLS 1.2.",
    "451 4.7.0 Temporary server error. Please try again later. PRX4",
    "452 4.3.1 Insufficient system resources",
    "554 5.2.122 The recipient has exceeded their limit for the number of messages they can receive per hour",
    # Postfix
    "450 4.2.0 <rate@example.org>: Recipient address rejected: Greylisted, see http://postgrey.example.org/help",
    "450 4.7.1 Client host rejected: cannot find your hostname, [192.0.2.1]",
    "450 4.1.2 <anna@throttled.example.org>: Recipient address rejected: Domain not found",
    "451 4.3.0 <anna@example.org>: Temporary lookup failure",
    "452 4.3.1 Insufficient system storage",
    "452 4.3.4 Message size exceeds message size limit",
    "421 4.4.2 too-many-messages.rate-limit.example.org Error: timeout exceeded",
    "554 5.4.6 Error: too many hops",
    # SES
    "454 Temporary service failure",
    "451 Timeout waiting for data from client",
    "554 Message rejected: Email address is not verified.",
    # Others
    "421 Service not available, closing transmission channel",
    "451 Requested action aborted: error in processing",
    "450 Mailbox busy, the daily backup runs",
]


@pytest.mark.parametrize("reply", RATE_LIMITS)
def test_is_rate_limit_of_rate_limit_is_true(reply: str) -> None:
    code, _, text = reply.partition(" ")
    assert is_rate_limit(int(code), text)


@pytest.mark.parametrize("reply", OTHER_REPLIES)
def test_is_rate_limit_of_other_reply_is_false(reply: str) -> None:
    code, _, text = reply.partition(" ")
    assert not is_rate_limit(int(code), text)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [(RATE_LIMITS[5], RateLimited), (RATE_LIMITS[12], RateLimited), ("452 Message size limit", NotDelivered)],
)
def test_send_raises_rate_limited_only_for_rate_limits(reply: str, expected: type[NotDelivered]) -> None:
    with mail_server(Mailbox(answers={"RCPT": reply})) as port, pytest.raises(NotDelivered) as raised:
        SmtpMailer(f"smtp://localhost:{port}").send(a_mail())
    assert type(raised.value) is expected


def test_send_ignores_words_in_name_of_mail_server() -> None:
    with scripted(servers.say("421 rate-limit.localhost closing")) as port, pytest.raises(NotDelivered) as raised:
        SmtpMailer(f"smtp://localhost:{port}").send(a_mail())
    assert type(raised.value) is NotDelivered
