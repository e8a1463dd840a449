"""CloudEvents and alerts of events, and signatures and masks of secrets."""

from typing import Any

import pytest

from chalicelib.domain.events.event import Event, JsonPayload, NewEvent, encode
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.alert import Alert, alert_of
from chalicelib.domain.notifications.cloud_event import cloud_event, event_data
from chalicelib.domain.notifications.delivery import Channel
from chalicelib.domain.notifications.secret_fields import MASK, masked, with_stored_secrets
from chalicelib.domain.notifications.webhook_signature import format_secret, parse_secret, signature_headers

AT_US = 1_700_000_000_000_001


def an_event(event_type: str, key: str | None = None, data: Any = None) -> Event:
    payload = None if data is None else JsonPayload(type="json", data=data)
    text = encode(NewEvent(type=tuple(event_type.split("/")), key=key, payload=payload)).decode()
    return Event(Id(1, 7, 1), AT_US, AT_US, text)


def test_cloud_event_has_required_attributes() -> None:
    event = an_event("job/finish/n1/backup", "/job/7", {"success": "0", "message": "full"})
    data = event_data({"event": "finish"}, "acme", "ops", "https://annals.example/#/x", event)
    assert cloud_event("1.7.1/ops", event, data, "acme", "") == {
        "specversion": "1.0",
        "id": "1.7.1/ops",
        "source": "/organizations/acme",
        "type": "annals.job.finish.n1.backup",
        "subject": "/job/7",
        "time": "2023-11-14T22:13:20.000001Z",
        "datacontenttype": "application/json",
        "data": {
            "event": {"event": "finish"},
            "organization": "acme",
            "observer": "ops",
            "link": "https://annals.example/#/x",
            "dedupKey": "acme/backup",
            "action": "trigger",
        },
    }


def test_cloud_event_without_key_and_alert_omits_members() -> None:
    event = an_event("weather/reading")
    made = cloud_event("1.7.1/ops", event, event_data({}, "acme", "ops", "", event), "acme", "https://a.example/")
    assert (made["source"], "subject" in made) == ("https://a.example/organizations/acme", False)
    assert made["data"].keys() == {"event", "organization", "observer"}


def test_attributes_have_no_control_characters() -> None:
    event = an_event("a\n/b\x7f", "/k\r\n\u0085")
    made = cloud_event("1.7.1/ops", event, {}, "acme", "")
    assert (made["type"], made["subject"]) == ("annals.a\ufffd.b\ufffd", "/k\ufffd\ufffd\ufffd")


ALERTS: list[tuple[Event, Alert | None]] = [
    (an_event("job/finish/n1/backup", "/job/7", {"success": "0"}), Alert("trigger", "backup")),
    (an_event("job/finish/n1/backup", "/job/7", {"success": "1"}), Alert("resolve", "backup")),
    (an_event("job/clean/n1/backup", "/job/7"), Alert("trigger", "backup")),
    (an_event("job/create/n1/backup", "/job/7", {}), None),
    (an_event("job/missed//backup", "/expectation/nightly", {}), Alert("trigger", "nightly")),
    (an_event("job/late/n1/backup", "/expectation/nightly", {}), Alert("trigger", "nightly")),
    (an_event("job/overdue/n1/backup", "/expectation/nightly", {}), Alert("trigger", "nightly")),
    (an_event("job/early/n1/backup", "/expectation/nightly", {}), Alert("trigger", "nightly")),
    (an_event("job/recovered/n1/backup", "/expectation/nightly", {}), Alert("resolve", "nightly")),
    (
        an_event("jobset/finishJobSet/n1", "/jobset/8", {"jobs": [{"success": "1"}, {"success": "0"}]}),
        Alert("trigger", "jobset/8"),
    ),
    (an_event("jobset/finishJobSet/n1", "/jobset/8", {"jobs": [{"success": "1"}]}), Alert("resolve", "jobset/8")),
    (an_event("jobset/finishJobSet/n1", "/jobset/8", {"jobs": []}), None),
    (an_event("jobset/cleanJobSet/n1", "/jobset/8"), Alert("trigger", "jobset/8")),
    (an_event("notification/failed/mail/ops", "/observer/ops"), Alert("trigger", "observer/ops")),
    (an_event("job", "/job/7"), None),
    (an_event("job/finish", "/job/7", [1]), None),
]


@pytest.mark.parametrize(("event", "alert"), ALERTS, ids=[event.text for event, _ in ALERTS])
def test_alert_of_event(event: Event, alert: Alert | None) -> None:
    assert alert_of(event.fields) == alert


@pytest.mark.parametrize("size", [24, 32, 64])
def test_parse_secret_returns_key(size: int) -> None:
    assert parse_secret(format_secret(b"k" * size)) == b"k" * size


@pytest.mark.parametrize(
    "secret", ["", "whsec_", format_secret(b"k" * 23), format_secret(b"k" * 65), "a" * 44, "whsec_" + "!" * 44]
)
def test_parse_invalid_secret_raises_without_it(secret: str) -> None:
    with pytest.raises(ValueError, match=r"^config.secret: a secret is 'whsec_' and 24 to 64 bytes") as raised:
        parse_secret(secret)
    assert "kkkk" not in str(raised.value)


def test_signature_is_that_of_the_specification() -> None:
    """The example of the specification's reference implementations."""
    headers = signature_headers(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_webhook_id_has_no_dots() -> None:
    headers = signature_headers(format_secret(b"k" * 32), "1.7.1/a.b/replay-x", 1, b"")
    assert headers["webhook-id"] == "1:7:1/a:b/replay-x"


APPRISE = {"urls": ["ntfys://topicA", "json://host/b", "ntfys://topicC"]}
MASKED = {"urls": [f"ntfys://{MASK}/1", f"json://{MASK}/2", f"ntfys://{MASK}/3"]}


@pytest.mark.parametrize(
    ("channel", "config", "shown"),
    [
        ("webhook", {"url": "https://a", "secret": "s"}, {"url": "https://a", "secret": MASK}),
        ("apprise", APPRISE, MASKED),
        ("apprise", {"urls": "ntfys://topicA"}, {"urls": [f"ntfys://{MASK}/1"]}),
        ("apprise", {"urls": "secret"}, {"urls": [f"://{MASK}/1"]}),
        ("slack", {"url": "https://a"}, {"url": "https://a"}),
        ("mail", {"to": "a@b.example", "secret": "x"}, {"to": "a@b.example", "secret": "x"}),
    ],
)
def test_masked_hides_secrets(channel: Channel, config: dict[str, Any], shown: dict[str, Any]) -> None:
    assert masked(channel, config) == shown


@pytest.mark.parametrize(
    ("channel", "config", "stored", "filled"),
    [
        ("webhook", {"url": "b"}, {"url": "a", "secret": "s"}, {"url": "b", "secret": "s"}),
        ("webhook", {"url": "b", "secret": MASK}, {"url": "a", "secret": "s"}, {"url": "b", "secret": "s"}),
        ("webhook", {"url": "b", "secret": None}, {"url": "a", "secret": "s"}, {"url": "b", "secret": "s"}),
        ("webhook", {"url": "b", "secret": "t"}, {"url": "a", "secret": "s"}, {"url": "b", "secret": "t"}),
        ("webhook", {"url": "b", "secret": MASK}, {}, {"url": "b"}),
        ("apprise", {}, APPRISE, APPRISE),
        ("apprise", MASKED, APPRISE, APPRISE),
        ("apprise", {"urls": [MASKED["urls"][2]]}, APPRISE, {"urls": ["ntfys://topicC"]}),
        ("apprise", {"urls": ["tgram://n", MASKED["urls"][1]]}, APPRISE, {"urls": ["tgram://n", "json://host/b"]}),
        ("apprise", {"urls": "ntfys://x"}, {}, {"urls": ["ntfys://x"]}),
        ("mail", {"to": "a", "secret": MASK}, {}, {"to": "a", "secret": MASK}),
    ],
)
def test_with_stored_secrets_fills_masks(
    channel: Channel, config: dict[str, Any], stored: dict[str, Any], filled: dict[str, Any]
) -> None:
    assert with_stored_secrets(channel, config, stored) == filled


@pytest.mark.parametrize("mask", [f"ntfys://{MASK}/2", f"ntfys://{MASK}", f"json://{MASK}/4"])
def test_mask_of_no_stored_url_is_refused(mask: str) -> None:
    with pytest.raises(ValueError, match="stands for no stored URL"):
        with_stored_secrets("apprise", {"urls": [mask]}, APPRISE)
