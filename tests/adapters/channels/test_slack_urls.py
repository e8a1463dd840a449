"""Validation of webhook URLs (row A-18)."""

import pytest

from chalicelib.adapters.slack.webhook import SlackPoster, check_url
from chalicelib.domain.errors import Undeliverable
from tests.adapters.channels.messages import a_post

PATH = "/services/T000SECRET/B000SECRET/tokenSECRET"
"""The secret of the webhook: no error message may contain it."""

REFUSED = {
    "": "No destination URL",
    "  ": "No destination URL",
    f"http://hooks.slack.com{PATH}": "the URL does not begin with https://",
    f"file://hooks.slack.com{PATH}": "the URL does not begin with https://",
    f"hooks.slack.com{PATH}": "the URL does not begin with https://",
    f"https:{PATH}": "'' is not among the allowed hosts",
    f"https://{PATH}": "'' is not among the allowed hosts",
    f"https://elsewhere.example{PATH}": "'elsewhere.example' is not among",
    f"https://hooks.slack.com.elsewhere.example{PATH}": "'hooks.slack.com.elsewhere.example' is not among",
    f"https://hooks.slack.com.{PATH}": "'hooks.slack.com.' is not among",
    f"https://hooks.slack.com:8443{PATH}": "'hooks.slack.com:8443' is not among",
    f"https://hooks.slack.com:0{PATH}": "'hooks.slack.com:0' is not among",
    f"https://hooks.slack.com:x{PATH}": "has a malformed host or port",
    f"https://hooks.slack.com:99999{PATH}": "has a malformed host or port",
    f"https://[hooks.slack.com{PATH}": "has a malformed host or port",
    f"https://user:pass@hooks.slack.com{PATH}": "the URL contains a user or a password",
    f"https://hooks.slack.com@elsewhere.example{PATH}": "the URL contains a user or a password",
    f"https://elsewhere.example\\@hooks.slack.com{PATH}": "a character that is not allowed in URLs",
    f"https://hooks.slack.com{PATH}\r\nX: y": "a character that is not allowed in URLs",
    f"https://hooks.slack.com{PATH} HTTP/1.1": "a character that is not allowed in URLs",
    f"https://hooks.slack.com\t{PATH}": "a character that is not allowed in URLs",
    f" https://hooks.slack.com{PATH}": "a character that is not allowed in URLs",
    f"https://hooks.slack.com{PATH}ä": "a character that is not allowed in URLs",
    f"https://hooks。slack.com{PATH}": "a character that is not allowed in URLs",
    f"https://127.0.0.1{PATH}": "'127.0.0.1' is not among",
    f"https://2130706433{PATH}": "'2130706433' is not among",
    f"https://0x7f000001{PATH}": "'0x7f000001' is not among",
    f"https://0177.0.0.1{PATH}": "'0177.0.0.1' is not among",
    f"https://[::1]{PATH}": "'[::1]' is not among",
    f"https://[::ffff:127.0.0.1]{PATH}": "'[::ffff:127.0.0.1]' is not among",
}


@pytest.mark.parametrize(("url", "reason"), REFUSED.items())
def test_invalid_url_is_refused_by_check_and_by_post(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^(No destination|the URL|'.*' is not among)") as written:
        check_url(url)
    with pytest.raises(Undeliverable) as used:
        SlackPoster(["hooks.slack.com"]).post(a_post(url))
    assert str(written.value) == str(used.value)
    assert reason in str(written.value)
    assert "SECRET" not in str(written.value)
    assert "pass@" not in str(written.value)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        (f"https://hooks.slack.com{PATH}", ["hooks.slack.com"]),
        (f"https://hooks.slack.com:443{PATH}", ["hooks.slack.com"]),
        (f"HTTPS://Hooks.Slack.COM{PATH}", ["hooks.slack.com"]),
        ("https://hooks.slack.com", ["hooks.slack.com"]),
        ("https://relay.example:8443/x", ["hooks.slack.com", "relay.example:8443"]),
        ("https://10.0.0.1:8443/x", ["private:10.0.0.1:8443"]),
        ("https://[::1]:8443/x", ["private:[::1]:8443"]),
    ],
)
def test_check_url_accepts_allowed_hosts(url: str, allowed: list[str]) -> None:
    check_url(url, allowed)
