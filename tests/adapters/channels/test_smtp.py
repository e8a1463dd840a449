"""Mail to SMTP servers on loopback, working and broken ones."""

import email
import email.policy
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server, socket
from threading import Event, Thread
from time import monotonic

import pytest

from chalicelib.adapters.mail.smtp import SmtpMailer
from chalicelib.domain.errors import NotDelivered, RateLimited, Undeliverable
from chalicelib.domain.notifications.delivery import Mail
from tests.adapters.channels import servers
from tests.adapters.channels.messages import NOW_MS, a_mail
from tests.adapters.channels.servers import Mailbox, mail_server, scripted

LOGIN = "anna:s3cret%3A%2F%40"


@contextmanager
def mailer(url: str, timeout_s: float = 20, send_s: float = 60) -> Iterator[SmtpMailer]:
    opened = SmtpMailer(url, timeout_s, send_s, clock=lambda: NOW_MS)
    yield opened
    opened.close()


def send_error(url: str, mail: Mail | None = None, timeout_s: float = 20, send_s: float = 60) -> NotDelivered:
    """Send a mail to the server of `url`, and return the error."""
    with mailer(url, timeout_s, send_s) as opened, pytest.raises(NotDelivered) as raised:
        opened.send(mail or a_mail())
    assert "s3cret" not in str(raised.value)
    return raised.value


def test_send_delivers_mail_unchanged() -> None:
    box = Mailbox()
    mail = a_mail(sender="annals@bücher.example", subject="Fertig ✓", text=".\n..\nFrom here\n" + "ä" * 5000)
    with mail_server(box) as port, mailer(f"smtp://localhost:{port}") as opened:
        opened.send(mail)
    (envelope,) = box.mails
    assert (envelope.mail_from, envelope.rcpt_tos) == ("annals@xn--bcher-kva.example", ["anna@example.org"])
    assert isinstance(envelope.content, bytes)
    message = email.message_from_bytes(envelope.content, policy=email.policy.SMTP)
    assert (message["Subject"], message["X-Annals-Delivery"]) == ("Fertig ✓", "1.7.1/ops")
    text = next(part for part in message.walk() if part.get_content_type() == "text/plain")
    assert text.get_payload(decode=True) == mail.text.replace("\n", "\r\n").encode() + b"\r\n"


def test_send_reuses_idle_connection() -> None:
    box = Mailbox()
    with mail_server(box) as port, mailer(f"smtp://127.0.0.1:{port}") as opened:
        for number in range(5):
            opened.send(a_mail(delivery=f"1.{number}.1/ops"))
    assert (len(box.mails), len(set(box.peers))) == (5, 1)


def test_send_replaces_connection_closed_by_server() -> None:
    connections: list[Event] = []

    def take_one_mail(connection: socket, over: Event) -> None:
        connections.append(over)
        said = ["220 ready", "250 mx", "250 OK", "250 OK", "354 go on"]
        servers.say(*said, then=end_of_mail)(connection, over)

    def end_of_mail(connection: socket, _: Event) -> None:
        envelope = b""
        while not envelope.endswith(b"\r\n.\r\n"):
            envelope += connection.recv(4096)
        connection.sendall(b"250 OK\r\n")

    with scripted(take_one_mail) as port, mailer(f"smtp://127.0.0.1:{port}") as opened:
        opened.send(a_mail())
        opened.send(a_mail())
    assert len(connections) == 2


def test_send_from_several_threads_succeeds() -> None:
    box = Mailbox()
    with mail_server(box) as port, mailer(f"smtp://127.0.0.1:{port}") as opened:
        threads = [Thread(target=opened.send, args=(a_mail(delivery=f"1.{n}.1/ops"),)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(servers.HANG_TIMEOUT_S)
    assert len(box.mails) == 12


def test_send_after_rejected_mail_succeeds() -> None:
    box = Mailbox(answers={"RCPT": "550 No such user"})
    with mail_server(box) as port, mailer(f"smtp://127.0.0.1:{port}") as opened:
        with pytest.raises(Undeliverable):
            opened.send(a_mail())
        box.answers.clear()
        opened.send(a_mail())
    assert len(box.mails) == 1


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("query", ["", "?starttls=required"])
def test_send_uses_starttls_if_offered(tls: ssl.SSLContext, query: str) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=tls) as port, mailer(f"smtp://localhost:{port}{query}") as opened:
        opened.send(a_mail())
    assert box.encrypted == [True]


def test_send_with_starttls_no_is_unencrypted(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=tls) as port, mailer(f"smtp://localhost:{port}?starttls=no") as opened:
        opened.send(a_mail())
    assert box.encrypted == [False]


@pytest.mark.usefixtures("trusted")
def test_send_to_smtps_uses_tls(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls) as port, mailer(f"smtps://localhost:{port}") as opened:
        opened.send(a_mail())
    assert len(box.mails) == 1


def test_send_with_starttls_required_needs_encryption() -> None:
    box = Mailbox()
    with mail_server(box) as port:
        error = send_error(f"smtp://localhost:{port}?starttls=required")
    assert (str(error), box.mails) == (
        f"mail server localhost:{port} offers no encryption; add ?starttls=no to its URL to send without it",
        [],
    )


@pytest.mark.usefixtures("trusted")
def test_send_with_certificate_of_another_host_fails(foreign_tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=foreign_tls) as port:
        by_starttls = send_error(f"smtp://localhost:{port}")
    with mail_server(box, foreign_tls) as port:
        from_the_start = send_error(f"smtps://localhost:{port}")
    for error in (by_starttls, from_the_start):
        assert "has no valid certificate: Hostname mismatch" in str(error)
        assert type(error) is NotDelivered
    assert box.mails == []


@pytest.mark.usefixtures("trusted")
def test_send_logs_in_with_special_characters(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with (
        mail_server(box, tls_context=tls, authenticator=box.authenticate, auth_required=True) as port,
        mailer(f"smtp://{LOGIN}@localhost:{port}") as opened,
    ):
        opened.send(a_mail())
    assert (box.users, len(box.mails)) == (["anna"], 1)


@pytest.mark.usefixtures("trusted")
def test_send_with_wrong_password_is_retryable(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=tls, authenticator=box.authenticate) as port:
        error = send_error(f"smtp://anna:s3cret-no@localhost:{port}")
    assert str(error) == f"mail server localhost:{port} rejected the user or the password (535)"
    assert type(error) is NotDelivered


@pytest.mark.usefixtures("trusted")
def test_send_without_required_login_is_retryable(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=tls, authenticator=box.authenticate, auth_required=True) as port:
        error = send_error(f"smtp://localhost:{port}")
    assert "530" in str(error)
    assert type(error) is NotDelivered


def test_password_is_sent_unencrypted_only_with_starttls_no() -> None:
    box = Mailbox()
    with mail_server(box, authenticator=box.authenticate, auth_require_tls=False) as port:
        error = send_error(f"smtp://{LOGIN}@localhost:{port}")
        assert ("offers no encryption" in str(error), box.users) == (True, [])
        with mailer(f"smtp://{LOGIN}@localhost:{port}?starttls=no") as opened:
            opened.send(a_mail())
    assert (box.users, len(box.mails)) == (["anna"], 1)


def test_send_to_server_without_login_support_is_retryable() -> None:
    with mail_server(Mailbox()) as port:
        error = send_error(f"smtp://{LOGIN}@localhost:{port}?starttls=no")
    assert type(error) is NotDelivered


@pytest.mark.parametrize(
    ("command", "answer", "expected", "reason"),
    [
        ("MAIL", "451 Try again", NotDelivered, "rejected the sender: 451 Try again"),
        ("MAIL", "553 Not your address", Undeliverable, "rejected the sender: 553 Not your address"),
        ("RCPT", "450 Mailbox busy", NotDelivered, "rejected the recipient: 450 Mailbox busy"),
        ("RCPT", "452 Too many recipients", RateLimited, "rejected the recipient: 452 Too many recipients"),
        ("RCPT", "421 Going down", NotDelivered, "rejected the recipient: 421 Going down"),
        ("RCPT", "550 No such user", Undeliverable, "rejected the recipient: 550 No such user"),
        ("RCPT", "553-No\r\n553 never", Undeliverable, "rejected the recipient: 553 No never"),
        ("RCPT", "452 4.2.2 Mailbox over quota", NotDelivered, "rejected the recipient: 452 4.2.2 Mailbox over quota"),
        ("MAIL", "421 4.7.28 Rate limit exceeded", RateLimited, "rejected the sender: 421 4.7.28 Rate limit exceeded"),
        ("DATA", "454 Throttling failure", RateLimited, "rejected the mail: 454 Throttling failure"),
        ("DATA", "451 Daily message quota reached", RateLimited, "rejected the mail: 451 Daily message quota reached"),
        ("DATA", "550 Too many mails, blocked", Undeliverable, "rejected the mail: 550 Too many mails, blocked"),
        ("DATA", "451 Greylisted", NotDelivered, "rejected the mail: 451 Greylisted"),
        ("DATA", "554 Spam", Undeliverable, "rejected the mail: 554 Spam"),
        ("DATA", "552 " + "x" * 300, Undeliverable, "rejected the mail: 552 " + "x" * 199 + "…"),
    ],
)
def test_send_treats_4xx_as_retryable_and_5xx_as_permanent(
    command: str, answer: str, expected: type[NotDelivered], reason: str
) -> None:
    box = Mailbox(answers={command: answer})
    with mail_server(box) as port:
        error = send_error(f"smtp://localhost:{port}")
    assert (type(error), str(error)) == (expected, f"mail server localhost:{port} {reason}")


def test_send_to_invalid_address_does_not_connect() -> None:
    with mailer("smtp://127.0.0.1:1") as opened, pytest.raises(Undeliverable, match="is not a mail address"):
        opened.send(a_mail(recipient="anna@example.org>\r\nRCPT TO:<eve@example.org"))


BROKEN = {
    "sends nothing": (servers.hang, "did not answer in time"),
    "closes": (servers.close, "did not accept the mail"),
    "drips": (servers.drip, "did not answer in time"),
    "is not a mail server": (servers.say("HTTP/1.1 200 OK"), "is not ready: -1"),
    "has no service": (servers.say("554 No service"), "is not ready: 554 No service"),
    "is full": (servers.say("421 Too busy"), "is not ready: 421 Too busy"),
    "closes after the greeting": (servers.say("220 mx", "250 mx"), "did not accept the mail"),
    "hangs at the sender": (servers.say("220 mx", "250 mx", then=servers.hang), "did not answer in time"),
    "drips at the sender": (servers.say("220 mx", "250 mx", then=servers.drip), "did not answer in time"),
    "closes in the mail": (servers.say("220 mx", "250 mx", "250 OK", "250 OK", "354 go"), "did not accept the mail"),
    "hangs after the mail": (
        servers.say("220 mx", "250 mx", "250 OK", "250 OK", "354 go", then=servers.hang),
        "did not answer in time",
    ),
}


@pytest.mark.parametrize(("script", "reason"), BROKEN.values(), ids=BROKEN)
def test_send_to_broken_server_fails_in_time(script: servers.Script, reason: str) -> None:
    began = monotonic()
    timeout_s = 0.5 if "time" in reason else 20
    with scripted(script) as port:
        error = send_error(f"smtp://127.0.0.1:{port}", timeout_s=timeout_s, send_s=2 * timeout_s)
    assert str(error).startswith(f"mail server 127.0.0.1:{port} {reason}")
    assert type(error) is NotDelivered
    assert monotonic() - began < servers.HANG_TIMEOUT_S


def test_send_with_endless_reply_fails() -> None:
    def talk(connection: socket, over: Event) -> None:
        while not over.is_set():
            connection.sendall(b"220-still here\r\n" * 1000)

    with scripted(talk) as port:
        error = send_error(f"smtp://127.0.0.1:{port}")
    assert "the response is too long" in str(error)


def test_send_with_hanging_tls_handshake_fails_in_time(trusted: Path) -> None:
    assert trusted.exists()
    with scripted(servers.hang) as port:
        error = send_error(f"smtps://127.0.0.1:{port}", timeout_s=0.5, send_s=1)
    assert str(error) == f"mail server 127.0.0.1:{port} did not answer in time"


def test_send_without_server_is_retryable() -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = send_error(f"smtp://{LOGIN}@127.0.0.1:{port}")
    assert (type(error), "cannot be reached" in str(error)) == (NotDelivered, True)
