"""Mail by way of real mail servers: those that work, and those that do not."""

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
from chalicelib.domain.errors import NotDelivered, Undeliverable
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


def refusal(url: str, mail: Mail | None = None, timeout_s: float = 20, send_s: float = 60) -> NotDelivered:
    """Why the server of `url` does not take a mail."""
    with mailer(url, timeout_s, send_s) as opened, pytest.raises(NotDelivered) as raised:
        opened.send(mail or a_mail())
    assert "s3cret" not in str(raised.value)
    return raised.value


def test_a_mail_arrives_as_it_was_written() -> None:
    box = Mailbox()
    mail = a_mail(sender="annals@bücher.example", subject="Fertig ✓", text=".\n..\nFrom here\n" + "ä" * 5000)
    with mail_server(box) as port, mailer(f"smtp://localhost:{port}") as opened:
        opened.send(mail)
    (got,) = box.mails
    assert (got.mail_from, got.rcpt_tos) == ("annals@xn--bcher-kva.example", ["anna@example.org"])
    assert isinstance(got.content, bytes)
    found = email.message_from_bytes(got.content, policy=email.policy.SMTP)
    assert (found["Subject"], found["X-Annals-Delivery"]) == ("Fertig ✓", "1.7.1/ops")
    text = next(part for part in found.walk() if part.get_content_type() == "text/plain")
    assert text.get_payload(decode=True) == mail.text.replace("\n", "\r\n").encode() + b"\r\n"


def test_mails_shortly_after_each_other_share_a_connection() -> None:
    box = Mailbox()
    with mail_server(box) as port, mailer(f"smtp://127.0.0.1:{port}") as opened:
        for number in range(5):
            opened.send(a_mail(delivery=f"1.{number}.1/ops"))
    assert (len(box.mails), len(set(box.peers))) == (5, 1)


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    connections: list[Event] = []

    def take_one_mail(connection: socket, over: Event) -> None:
        connections.append(over)
        said = ["220 ready", "250 mx", "250 OK", "250 OK", "354 go on"]
        servers.say(*said, then=end_of_mail)(connection, over)

    def end_of_mail(connection: socket, _: Event) -> None:
        got = b""
        while not got.endswith(b"\r\n.\r\n"):
            got += connection.recv(4096)
        connection.sendall(b"250 OK\r\n")

    with scripted(take_one_mail) as port, mailer(f"smtp://127.0.0.1:{port}") as opened:
        opened.send(a_mail())
        opened.send(a_mail())
    assert len(connections) == 2


def test_threads_may_share_a_mailer() -> None:
    box = Mailbox()
    with mail_server(box) as port, mailer(f"smtp://127.0.0.1:{port}") as opened:
        threads = [Thread(target=opened.send, args=(a_mail(delivery=f"1.{n}.1/ops"),)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(servers.PATIENCE_S)
    assert len(box.mails) == 12


def test_a_mail_after_a_refused_one_is_sent() -> None:
    box = Mailbox(answers={"RCPT": "550 No such user"})
    with mail_server(box) as port, mailer(f"smtp://127.0.0.1:{port}") as opened:
        with pytest.raises(Undeliverable):
            opened.send(a_mail())
        box.answers.clear()
        opened.send(a_mail())
    assert len(box.mails) == 1


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("query", ["", "?starttls=required"])
def test_a_mail_is_encrypted_if_the_server_offers_it(tls: ssl.SSLContext, query: str) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=tls) as port, mailer(f"smtp://localhost:{port}{query}") as opened:
        opened.send(a_mail())
    assert box.encrypted == [True]


def test_a_mail_is_not_encrypted_if_the_url_says_so(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=tls) as port, mailer(f"smtp://localhost:{port}?starttls=no") as opened:
        opened.send(a_mail())
    assert box.encrypted == [False]


@pytest.mark.usefixtures("trusted")
def test_an_smtps_server_is_spoken_to_encrypted_from_the_start(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls) as port, mailer(f"smtps://localhost:{port}") as opened:
        opened.send(a_mail())
    assert len(box.mails) == 1


def test_a_server_that_must_encrypt_but_cannot_gets_nothing() -> None:
    box = Mailbox()
    with mail_server(box) as port:
        why = refusal(f"smtp://localhost:{port}?starttls=required")
    assert (str(why), box.mails) == (
        f"mail server localhost:{port} offers no encryption; ?starttls=no in its URL does without",
        [],
    )


@pytest.mark.usefixtures("trusted")
def test_a_certificate_for_another_host_is_not_trusted(foreign_tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=foreign_tls) as port:
        by_starttls = refusal(f"smtp://localhost:{port}")
    with mail_server(box, foreign_tls) as port:
        from_the_start = refusal(f"smtps://localhost:{port}")
    for why in (by_starttls, from_the_start):
        assert "has no valid certificate: Hostname mismatch" in str(why)
        assert type(why) is NotDelivered
    assert box.mails == []


@pytest.mark.usefixtures("trusted")
def test_a_user_logs_in_with_a_password_of_any_characters(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with (
        mail_server(box, tls_context=tls, authenticator=box.authenticate, auth_required=True) as port,
        mailer(f"smtp://{LOGIN}@localhost:{port}") as opened,
    ):
        opened.send(a_mail())
    assert (box.users, len(box.mails)) == (["anna"], 1)


@pytest.mark.usefixtures("trusted")
def test_a_wrong_password_is_for_the_operator_to_put_right(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=tls, authenticator=box.authenticate) as port:
        why = refusal(f"smtp://anna:s3cret-no@localhost:{port}")
    assert str(why) == f"mail server localhost:{port} refuses the user or the password (535)"
    assert type(why) is NotDelivered


@pytest.mark.usefixtures("trusted")
def test_a_server_that_wants_a_login_says_so_without_blame_on_the_mail(tls: ssl.SSLContext) -> None:
    box = Mailbox()
    with mail_server(box, tls_context=tls, authenticator=box.authenticate, auth_required=True) as port:
        why = refusal(f"smtp://localhost:{port}")
    assert "530" in str(why)
    assert type(why) is NotDelivered


def test_a_password_does_not_go_in_the_clear_unless_the_url_says_so() -> None:
    box = Mailbox()
    with mail_server(box, authenticator=box.authenticate, auth_require_tls=False) as port:
        why = refusal(f"smtp://{LOGIN}@localhost:{port}")
        assert ("offers no encryption" in str(why), box.users) == (True, [])
        with mailer(f"smtp://{LOGIN}@localhost:{port}?starttls=no") as opened:
            opened.send(a_mail())
    assert (box.users, len(box.mails)) == (["anna"], 1)


def test_a_server_without_logins_is_not_the_mails_fault() -> None:
    with mail_server(Mailbox()) as port:
        why = refusal(f"smtp://{LOGIN}@localhost:{port}?starttls=no")
    assert type(why) is NotDelivered


@pytest.mark.parametrize(
    ("command", "answer", "expected", "reason"),
    [
        ("MAIL", "451 Try again", NotDelivered, "refuses the sender: 451 Try again"),
        ("MAIL", "553 Not your address", Undeliverable, "refuses the sender: 553 Not your address"),
        ("RCPT", "450 Mailbox busy", NotDelivered, "refuses the recipient: 450 Mailbox busy"),
        ("RCPT", "452 Too many", NotDelivered, "refuses the recipient: 452 Too many"),
        ("RCPT", "421 Going down", NotDelivered, "refuses the recipient: 421 Going down"),
        ("RCPT", "550 No such user", Undeliverable, "refuses the recipient: 550 No such user"),
        ("RCPT", "553-No\r\n553 never", Undeliverable, "refuses the recipient: 553 No never"),
        ("DATA", "451 Greylisted", NotDelivered, "refuses the mail: 451 Greylisted"),
        ("DATA", "554 Spam", Undeliverable, "refuses the mail: 554 Spam"),
        ("DATA", "552 " + "x" * 300, Undeliverable, "refuses the mail: 552 " + "x" * 199 + "…"),
    ],
)
def test_a_4xx_may_pass_and_a_5xx_never_will(
    command: str, answer: str, expected: type[NotDelivered], reason: str
) -> None:
    box = Mailbox(answers={command: answer})
    with mail_server(box) as port:
        why = refusal(f"smtp://localhost:{port}")
    assert (type(why), str(why)) == (expected, f"mail server localhost:{port} {reason}")


def test_an_address_that_is_none_is_undeliverable_and_no_server_is_asked() -> None:
    with mailer("smtp://127.0.0.1:1") as opened, pytest.raises(Undeliverable, match="is not a mail address"):
        opened.send(a_mail(recipient="anna@example.org>\r\nRCPT TO:<eve@example.org"))


BROKEN = {
    "says nothing": (servers.hang, "did not answer in time"),
    "closes": (servers.close, "did not take the mail"),
    "drips": (servers.drip, "did not answer in time"),
    "is not a mail server": (servers.say("HTTP/1.1 200 OK"), "is not ready: -1"),
    "has no service": (servers.say("554 No service"), "is not ready: 554 No service"),
    "is full": (servers.say("421 Too busy"), "is not ready: 421 Too busy"),
    "closes after the greeting": (servers.say("220 mx", "250 mx"), "did not take the mail"),
    "hangs at the sender": (servers.say("220 mx", "250 mx", then=servers.hang), "did not answer in time"),
    "drips at the sender": (servers.say("220 mx", "250 mx", then=servers.drip), "did not answer in time"),
    "closes in the mail": (servers.say("220 mx", "250 mx", "250 OK", "250 OK", "354 go"), "did not take the mail"),
    "hangs after the mail": (
        servers.say("220 mx", "250 mx", "250 OK", "250 OK", "354 go", then=servers.hang),
        "did not answer in time",
    ),
}


@pytest.mark.parametrize(("script", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_server_is_left_alone_in_time(script: servers.Script, reason: str) -> None:
    began = monotonic()
    timeout_s = 0.5 if "time" in reason else 20
    with scripted(script) as port:
        why = refusal(f"smtp://127.0.0.1:{port}", timeout_s=timeout_s, send_s=2 * timeout_s)
    assert str(why).startswith(f"mail server 127.0.0.1:{port} {reason}")
    assert type(why) is NotDelivered
    assert monotonic() - began < servers.PATIENCE_S


def test_a_server_that_never_ends_its_answer_is_cut_off() -> None:
    def talk(connection: socket, over: Event) -> None:
        while not over.is_set():
            connection.sendall(b"220-still here\r\n" * 1000)

    with scripted(talk) as port:
        why = refusal(f"smtp://127.0.0.1:{port}")
    assert "the answer is too long" in str(why)


def test_a_server_that_does_not_finish_to_encrypt_is_left_alone(trusted: Path) -> None:
    assert trusted.exists()
    with scripted(servers.hang) as port:
        why = refusal(f"smtps://127.0.0.1:{port}", timeout_s=0.5, send_s=1)
    assert str(why) == f"mail server 127.0.0.1:{port} did not answer in time"


def test_where_no_server_is_the_mail_may_be_delivered_later() -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    why = refusal(f"smtp://{LOGIN}@127.0.0.1:{port}")
    assert (type(why), "cannot be reached" in str(why)) == (NotDelivered, True)
