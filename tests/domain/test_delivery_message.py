"""Delivery messages and delivery states."""

from dataclasses import replace

import pytest

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Tries
from chalicelib.domain.notifications.delivery_message import DeliveryMessage, DeliveryState
from tests.adapters.channels.queues import a_delivery

PARKED = DeliveryState().after_attempt(0, Tries(4)).after_parking(0, Tries(5))
RETRIED = PARKED.after_attempt(1, Tries(1))


def test_delivery_message_text_is_compact_json() -> None:
    assert DeliveryMessage(a_delivery(7, address="a@example.org", replay="r"), 2).text == (
        '{"id":"1.7.1/ops","server":1,"observer":"ops","event":"1.7.1","key":"/job/1","address":"a@example.org",'
        '"replay":"r","retry":2}'
    )


def test_held_delivery_message_has_its_samples() -> None:
    samples = (Id(1, 7, 1), Id(1, 8, 3))
    message = DeliveryMessage(replace(a_delivery(7), until=99, count=1000, samples=samples))
    assert message.text.endswith('"until":99,"count":1000,"samples":["1.7.1","1.8.3"],"retry":0}')
    assert DeliveryMessage.parse(message.text) == message


@pytest.mark.parametrize("key", ["", "/job/1", "ß 日本 🎉", '\x00\x01\n\r\t\x7f\x85\u2028\ufffe\uffff"\\'])
def test_delivery_message_text_is_ascii_and_parses_back(key: str) -> None:
    message = DeliveryMessage(a_delivery(key=key), 3)
    assert all(" " <= character < "\x80" for character in message.text)
    assert DeliveryMessage.parse(message.text) == message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<delivery/>",
        "null",
        "[]",
        "{}",
        '{"retry":0}',
        DeliveryMessage(a_delivery()).text.replace('"1.1.1"', '"1.1"'),
        DeliveryMessage(a_delivery()).text.replace('"1.1.1"', "7"),
        DeliveryMessage(a_delivery()).text.replace('"retry":0', '"retry":"x"'),
        DeliveryMessage(a_delivery()).text.replace('"retry"', '"more":1,"retry"'),
    ],
)
def test_parse_invalid_text_raises_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="not a delivery: "):
        DeliveryMessage.parse(text)


@pytest.mark.parametrize(
    ("state", "retry", "is_obsolete", "tries"),
    [
        (DeliveryState(), 0, False, 0),
        (DeliveryState(), 1, False, 0),
        (DeliveryState().after_attempt(0, Tries(3)), 0, False, 3),
        (PARKED, 0, True, 5),
        (PARKED, 1, False, 0),
        (RETRIED, 0, True, 0),
        (RETRIED, 1, False, 1),
        (RETRIED.after_parking(1, Tries(5)), 1, True, 5),
        (RETRIED.after_parking(1, Tries(5)), 2, False, 0),
        (DeliveryState().after_outcome("sent"), 0, True, 0),
        (DeliveryState().after_outcome("sent"), 1, True, 0),
        (RETRIED.after_outcome("dropped"), 2, True, 0),
    ],
)
def test_delivery_state_is_obsolete_and_tries(state: DeliveryState, retry: int, is_obsolete: bool, tries: int) -> None:
    assert (state.is_obsolete(retry), state.tries_in(retry).count) == (is_obsolete, tries)


def test_delivery_state_changes_increase_version() -> None:
    changes = [
        DeliveryState(),
        DeliveryState().after_attempt(0, Tries(1)),
        PARKED,
        RETRIED,
        RETRIED.after_outcome("sent"),
    ]
    assert [state.version for state in changes] == [0, 1, 2, 3, 4]
