"""Parsing of SMTP URLs."""

import pytest

from chalicelib.adapters.mail import smtp_url
from chalicelib.adapters.mail.smtp import SmtpMailer
from chalicelib.adapters.mail.smtp_url import SmtpServer


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mx", SmtpServer("mx", 25)),
        ("smtp://mx:2525/", SmtpServer("mx", 2525)),
        ("smtps://mx", SmtpServer("mx", 465, is_tls=True)),
        ("smtp://mx?starttls=no", SmtpServer("mx", 25, starttls="no")),
        ("smtp://a%40b:p%3Aq@mx:587?starttls=required", SmtpServer("mx", 587, False, "required", "a@b", "p:q")),
        ("smtp://[::1]:25", SmtpServer("::1", 25)),
    ],
)
def test_parse_returns_server(url: str, server: SmtpServer) -> None:
    assert smtp_url.parse(url) == server
    assert "p:q" not in repr(smtp_url.parse(url))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mx:25",
        "http://mx",
        "smtp://",
        "smtp://s3cret@:25",
        "smtp://u:s3cret@mx:99999",
        "smtp://u:s3cret@mx:port",
        "smtp://u:s3cret@mx:0",
        "smtp://u:s3cret@mx/path",
        "smtp://u:s3cret@mx#part",
        "smtp://u:s3cret@mx?starttls=yes",
        "smtp://u:s3cret@mx?tls=no",
        "smtps://u:s3cret@mx?starttls=no",
        "smtp://u:s3cret%C3%A4@mx",
        "smtp://:s3cret@mx",
    ],
)
def test_parse_invalid_url_raises_without_password(url: str) -> None:
    with pytest.raises(ValueError, match="mail server") as raised:
        SmtpMailer(url)
    assert "s3cret" not in str(raised.value)
