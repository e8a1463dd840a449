"""Which URLs may be posted to (row A-18)."""

import pytest

from chalicelib.adapters.slack.webhook import SlackPoster, check_url
from chalicelib.domain.errors import Undeliverable
from tests.adapters.channels.messages import a_post

PATH = "/services/T000SECRET/B000SECRET/tokenSECRET"
"""Who knows it can post: no reason may name it."""

REFUSED = {
    "": "No destination URL",
    "  ": "No destination URL",
    f"http://hooks.slack.com{PATH}": "the URL does not begin with https://",
    f"file://hooks.slack.com{PATH}": "the URL does not begin with https://",
    f"hooks.slack.com{PATH}": "the URL does not begin with https://",
    f"https:{PATH}": "'' is not among the hosts that messages may go to",
    f"https://{PATH}": "'' is not among the hosts that messages may go to",
    f"https://elsewhere.example{PATH}": "'elsewhere.example' is not among",
    f"https://hooks.slack.com.elsewhere.example{PATH}": "'hooks.slack.com.elsewhere.example' is not among",
    f"https://hooks.slack.com.{PATH}": "'hooks.slack.com.' is not among",
    f"https://hooks.slack.com:8443{PATH}": "'hooks.slack.com:8443' is not among",
    f"https://hooks.slack.com:0{PATH}": "'hooks.slack.com:0' is not among",
    f"https://hooks.slack.com:x{PATH}": "its host or its port is malformed",
    f"https://hooks.slack.com:99999{PATH}": "its host or its port is malformed",
    f"https://[hooks.slack.com{PATH}": "its host or its port is malformed",
    f"https://user:pass@hooks.slack.com{PATH}": "the URL holds a user or a password",
    f"https://hooks.slack.com@elsewhere.example{PATH}": "the URL holds a user or a password",
    f"https://elsewhere.example\\@hooks.slack.com{PATH}": "a character that no URL may hold",
    f"https://hooks.slack.com{PATH}\r\nX: y": "a character that no URL may hold",
    f"https://hooks.slack.com{PATH} HTTP/1.1": "a character that no URL may hold",
    f"https://hooks.slack.com\t{PATH}": "a character that no URL may hold",
    f" https://hooks.slack.com{PATH}": "a character that no URL may hold",
    f"https://hooks.slack.com{PATH}ä": "a character that no URL may hold",
    f"https://hooks。slack.com{PATH}": "a character that no URL may hold",
    f"https://127.0.0.1{PATH}": "'127.0.0.1' is not among",
    f"https://2130706433{PATH}": "'2130706433' is not among",
    f"https://0x7f000001{PATH}": "'0x7f000001' is not among",
    f"https://0177.0.0.1{PATH}": "'0177.0.0.1' is not among",
    f"https://[::1]{PATH}": "'[::1]' is not among",
    f"https://[::ffff:127.0.0.1]{PATH}": "'[::ffff:127.0.0.1]' is not among",
}


@pytest.mark.parametrize(("url", "reason"), REFUSED.items())
def test_a_18_a_url_that_leads_elsewhere_is_refused_when_written_and_when_used(url: str, reason: str) -> None:
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
def test_a_url_of_an_allowed_host_is_good(url: str, allowed: list[str]) -> None:
    check_url(url, allowed)
