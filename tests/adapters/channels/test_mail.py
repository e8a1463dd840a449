"""MIME messages, mail addresses, and header injection (rows A-17, A-18)."""

import email
import unicodedata
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import SMTP, compat32
from email.utils import parseaddr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.adapters.mail.message import DEFAULT_TITLE, build_message, normalize_address, parse_addresses
from chalicelib.domain.errors import Undeliverable
from tests.adapters.channels.messages import NOW_MS, a_mail

HEADERS = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "X-Annals-Delivery",
    "Auto-Submitted",
    "MIME-Version",
    "Content-Type",
]
INJECTIONS = {
    "a new header": "Hi\r\nBcc: eve@example.org",
    "a new header, by LF": "Hi\nBcc: eve@example.org",
    "a new header, by CR": "Hi\rBcc: eve@example.org",
    "a body": "Hi\r\n\r\nBuy!",
    "a folded line": "Hi\r\n Bcc: eve@example.org",
    "NUL": "Hi\0Bcc: eve@example.org",
    "other lines": "Hi\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029Bcc: eve@example.org",
    "an encoded word": "Hi =?utf-8?q?=0D=0ABcc:_eve@example.org?=",
    "an encoded word in base64": "=?utf-8?b?SGkNCkJjYzogZXZlQGV4YW1wbGUub3Jn?=",
    "a lone surrogate": "Hi \ud800",
}


def read(wire: bytes) -> EmailMessage:
    """Parse a message strictly."""
    read = email.message_from_bytes(wire, policy=SMTP)
    assert isinstance(read, EmailMessage)
    assert [defect for part in read.walk() for defect in part.defects] == []
    return read


def test_build_message_has_text_and_html_part() -> None:
    mail = a_mail(title="Builds", text="Grüße\nÄ\n", html="<p>Grüße</p>\n")
    wire = build_message(mail, NOW_MS).as_bytes()
    assert wire.isascii()
    message = read(wire)
    assert message.keys() == HEADERS
    assert (message["From"], message["To"], message["Subject"]) == (
        "Builds <annals@example.org>",
        "anna@example.org",
        "Job finished",
    )
    assert (message["Date"], message["X-Annals-Delivery"]) == ("Tue, 14 Nov 2023 22:13:20 +0000", "1.7.1/ops")
    assert message.get_content_type() == "multipart/alternative"
    assert [(part.get_content_type(), part.get_content()) for part in message.iter_parts()] == [
        ("text/plain", "Grüße\r\nÄ\r\n"),
        ("text/html", "<p>Grüße</p>\r\n"),
    ]


@pytest.mark.parametrize("title", ["", "  ", "\r\n"])
def test_build_message_without_title_uses_annals(title: str) -> None:
    assert DEFAULT_TITLE == "Annals"
    message = read(build_message(a_mail(title=title), NOW_MS).as_bytes())
    assert message["From"] == "Annals <annals@example.org>"


def test_non_ascii_subject_and_title_are_base64_encoded() -> None:
    wire = build_message(a_mail(title="Büro", subject="Fertig ✓"), NOW_MS).as_bytes()
    assert b"\r\nSubject: =?utf-8?b?RmVydGlnIOKckw==?=\r\n" in wire
    assert b"From: =?utf-8?b?QsO8cm8=?= <annals@example.org>\r\n" in wire
    assert (read(wire)["From"], read(wire)["Subject"]) == ("Büro <annals@example.org>", "Fertig ✓")


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Builds", "Builds"),
        ("Ops, Inc.", "Ops, Inc."),
        ('The "Ops"', 'The "Ops"'),
        ("back\\slash", "back\\slash"),
        ("eve@example.org", "eve@example.org"),
        ("<eve@example.org>", "<eve@example.org>"),
        ("a (comment)", "a (comment)"),
        ("Büro, <eve@example.org>", "Büro, <eve@example.org>"),
        ("x" * 600, "x" * 499 + "…"),
        ("Überlang " * 20, ("Überlang " * 20).strip()),
    ],
)
def test_title_never_becomes_an_address(title: str, shown: str) -> None:
    wire = build_message(a_mail(title=title), NOW_MS).as_bytes()
    (origin,) = read(wire)["From"].addresses
    assert origin.addr_spec == "annals@example.org"
    # The parser of the newer policy would put a space between the encoded words of a title.
    name, _ = parseaddr(email.message_from_bytes(wire, policy=compat32)["From"])
    assert str(make_header(decode_header(name))) == shown


@pytest.mark.parametrize("field", ["subject", "title", "delivery"])
@pytest.mark.parametrize("injection", INJECTIONS.values(), ids=INJECTIONS)
def test_injected_text_adds_no_header_or_body(field: str, injection: str) -> None:
    wire = build_message(a_mail(**{field: injection}), NOW_MS).as_bytes()
    message = read(wire)
    assert message.keys() == HEADERS
    assert message["To"] == "anna@example.org"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    for line in wire.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        assert not line.lower().startswith((b"bcc", b" bcc"))
        assert not any(byte < 0x20 or byte == 0x7F for byte in line)


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        ("Job\r\n\tfinished\0!", "Job finished !"),
        ("=?utf-8?q?=0D=0ABcc?=", "=?utf-8?q?=0D=0ABcc?="),
        ("", ""),
        ("x" * 500, "x" * 500),
        ("ä" * 501, "ä" * 499 + "…"),
    ],
)
def test_subject_is_one_line_of_limited_length(subject: str, shown: str) -> None:
    assert read(build_message(a_mail(subject=subject), NOW_MS).as_bytes())["Subject"] == shown


@given(st.text(max_size=300))
def test_any_text_is_readable_and_adds_nothing(text: str) -> None:
    wire = build_message(a_mail(subject=text, title=text, text=text, html=text), NOW_MS).as_bytes()
    message = read(wire)
    assert message.keys() == HEADERS
    assert max(len(line) for line in wire.split(b"\r\n")) <= 998
    assert wire.count(b"\r") == wire.count(b"\n") == wire.count(b"\r\n")
    breaking = {character for character in text if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")}
    shown = " ".join("".join(" " if character in breaking else character for character in text).split())
    assert message["Subject"] == shown
    bodies = [part.get_content().replace("\r\n", "\n").rstrip("\n") for part in message.iter_parts()]
    body = text.replace("\0", "\ufffd").replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    assert bodies == [body, body]


def test_message_id_is_the_same_for_all_tries_of_delivery() -> None:
    ids = [
        build_message(a_mail(delivery=delivery), at_ms)["Message-ID"]
        for delivery, at_ms in [("1.7.1/ops", NOW_MS), ("1.7.1/ops", NOW_MS + 60_000), ("1.7.1/op", NOW_MS)]
    ]
    assert (ids[0] == ids[1], ids[0] == ids[2]) == (True, False)
    assert ids[0].endswith("@example.org>")


def test_build_message_is_deterministic() -> None:
    assert build_message(a_mail(), NOW_MS).as_bytes() == build_message(a_mail(), NOW_MS).as_bytes()


def test_text_quoting_a_whole_mail_stays_one_part() -> None:
    quoted = build_message(a_mail(), NOW_MS).as_string()
    message = read(build_message(a_mail(text=quoted), NOW_MS).as_bytes())
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]


@pytest.mark.parametrize(("sender", "recipient"), [("", "a@x"), ("a@x", ""), ("", ""), (" ", "a@x")])
def test_mail_without_sender_or_recipient_is_undeliverable(sender: str, recipient: str) -> None:
    with pytest.raises(Undeliverable, match=r"^No origin or destination address$"):
        build_message(a_mail(sender=sender, recipient=recipient), NOW_MS)


NO_ADDRESSES = [
    "anna",
    "@example.org",
    "anna@",
    "anna@@example.org",
    "anna@example..org",
    "anna@.example.org",
    "anna@example.org.",
    "anna@-example.org",
    ".anna@example.org",
    "an..na@example.org",
    "an na@example.org",
    "anna@exam ple.org",
    "Anna <anna@example.org>",
    "<anna@example.org>",
    "anna@example.org>",
    '"an na"@example.org',
    "anna(comment)@example.org",
    "anna@example.org; eve@example.org",
    "anna@[127.0.0.1]",
    "anna@example.org\r\nBcc: eve@example.org",
    "anna@example.org\n",
    "an\0na@example.org",
    "anna@exam\tple.org",
    "änna@example.org",
    "anna@ex\u200dample.org",
    "anna@example\uff0eorg",
    "anna@exa\u2028mple.org",
    "anna@exam\ud800ple.org",
    "a" * 65 + "@example.org",
    "anna@" + "a" * 64 + ".org",
    "anna@" + ".".join(["abcdefghi"] * 26),
]


@pytest.mark.parametrize("field", ["sender", "recipient"])
@pytest.mark.parametrize("text", [*NO_ADDRESSES, "a@x,b@y"])
def test_mail_with_invalid_address_is_undeliverable(field: str, text: str) -> None:
    with pytest.raises(Undeliverable, match=r"^'[^\r\n\0]*' is not a mail address such as 'anna@example.org'$"):
        build_message(a_mail(**{field: text}), NOW_MS)


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_parse_addresses_with_invalid_address_raises(text: str) -> None:
    with pytest.raises(ValueError, match="is not a mail address"):
        parse_addresses(f"a@x, {text}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("anna@example.org", "anna@example.org"),
        ("Anna.B+jobs@Example.ORG", "Anna.B+jobs@example.org"),
        ("root@localhost", "root@localhost"),
        ("a@x", "a@x"),
        ("o'neill=1/2@a_b.example", "o'neill=1/2@a_b.example"),
        ("anna@bücher.example", "anna@xn--bcher-kva.example"),
        ("anna@BÜCHER.example", "anna@xn--bcher-kva.example"),
        ("anna@bu\u0308cher.example", "anna@xn--bcher-kva.example"),
        ("anna@straße.example", "anna@xn--strae-oqa.example"),
        ("anna@例え.テスト", "anna@xn--r8jz45g.xn--zckzah"),
        ("anna@xn--bcher-kva.example", "anna@xn--bcher-kva.example"),
    ],
)
def test_normalize_address_converts_domain_to_ascii(text: str, expected: str) -> None:
    assert normalize_address(text) == expected
    assert read(build_message(a_mail(recipient=text), NOW_MS).as_bytes())["To"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a@x, b@y", ("a@x", "b@y")),
        ("a@x,b@y", ("a@x", "b@y")),
        (" a@x ,\tb@y ", ("a@x", "b@y")),
        (",a@x,, ,", ("a@x",)),
        ("b@y, a@x, b@y", ("b@y", "a@x")),
        ("a@X, a@x", ("a@X",)),
        ("A@x, a@x", ("A@x", "a@x")),
        ("a@bücher.example, a@xn--bcher-kva.example", ("a@bücher.example",)),
        ("", ()),
        (" , ", ()),
    ],
)
def test_parse_addresses_returns_each_address_once(text: str, expected: tuple[str, ...]) -> None:
    assert parse_addresses(text) == expected
