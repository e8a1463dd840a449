"""Mail in a maildir, read with the standard library."""

import mailbox
from pathlib import Path

import pytest

from chalicelib.adapters.mail.maildir import MaildirMailer
from chalicelib.adapters.mail.message import build_message
from chalicelib.domain.errors import NotDelivered, Undeliverable
from tests.adapters.channels.messages import NOW_MS, a_mail


@pytest.fixture
def mailer(tmp_path: Path) -> MaildirMailer:
    return MaildirMailer(tmp_path / "mail", clock=lambda: NOW_MS)


def list_mails(directory: Path) -> list[tuple[str, str]]:
    """Recipient and subject of each mail."""
    box = mailbox.Maildir(directory / "mail", create=False)
    return sorted((mail["To"], mail["Subject"]) for mail in box)


def test_send_writes_mail_to_new(mailer: MaildirMailer, tmp_path: Path) -> None:
    mailer.send(a_mail())
    assert list_mails(tmp_path) == [("anna@example.org", "Job finished")]
    (file,) = (tmp_path / "mail" / "new").iterdir()
    assert file.read_bytes() == build_message(a_mail(), NOW_MS).as_bytes().replace(b"\r\n", b"\n")
    assert [path.name for part in ("tmp", "cur") for path in (tmp_path / "mail" / part).iterdir()] == []


def test_send_writes_one_file_per_delivery_id(mailer: MaildirMailer, tmp_path: Path) -> None:
    for delivery in ("1.7.1/ops", "1.7.1/ops/b@y", "../../1", "1.7.1/\0", "ü" * 300):
        mailer.send(a_mail(delivery=delivery))
    assert len(list_mails(tmp_path)) == 5
    assert {path.name for path in tmp_path.iterdir()} == {"mail"}


def test_send_again_replaces_mail(mailer: MaildirMailer, tmp_path: Path) -> None:
    mailer.send(a_mail(subject="first"))
    mailer.send(a_mail(subject="second"))
    assert list_mails(tmp_path) == [("anna@example.org", "second")]


@pytest.mark.parametrize("flags", ["", ":2,", ":2,RS"])
def test_send_again_replaces_mail_that_was_read(mailer: MaildirMailer, tmp_path: Path, flags: str) -> None:
    mailer.send(a_mail(subject="first"))
    mailer.send(a_mail(delivery="another", subject="another"))
    (read,) = [path for path in (tmp_path / "mail" / "new").iterdir() if b"first" in path.read_bytes()]
    read = read.rename(tmp_path / "mail" / "cur" / f"{read.name}{flags}")
    mailer.send(a_mail(subject="second"))
    assert list_mails(tmp_path) == [("anna@example.org", "another"), ("anna@example.org", "second")]
    assert b"second" in read.read_bytes()


def test_send_to_unwritable_directory_is_retryable(tmp_path: Path) -> None:
    (tmp_path / "mail").write_text("in the way")
    with pytest.raises(NotDelivered, match=r"^the maildir cannot be written: ") as raised:
        MaildirMailer(tmp_path / "mail").send(a_mail())
    assert type(raised.value) is NotDelivered


def test_failed_send_leaves_no_temporary_file(mailer: MaildirMailer, tmp_path: Path) -> None:
    mailer.send(a_mail())
    (file,) = (tmp_path / "mail" / "new").iterdir()
    file.unlink()
    (file / "in the way").mkdir(parents=True)
    with pytest.raises(NotDelivered):
        mailer.send(a_mail())
    assert list((tmp_path / "mail" / "tmp").iterdir()) == []


def test_send_without_recipient_is_undeliverable(mailer: MaildirMailer, tmp_path: Path) -> None:
    with pytest.raises(Undeliverable, match=r"^No origin or destination address$"):
        mailer.send(a_mail(recipient=""))
    assert list(tmp_path.iterdir()) == []
