"""Deliveries in a queue: their text, and which message still has something to do."""

import pytest

from chalicelib.domain.errors import BadInput
from chalicelib.domain.notifications.delivery_message import Queued, Standing
from tests.adapters.channels.queues import a_delivery

PARKED = Standing().tried(0, 4).parked(0, 5)
AGAIN = PARKED.tried(1, 1)


def test_the_text_of_a_delivery_is_compact_and_says_all() -> None:
    assert Queued(a_delivery(7, address="a@example.org", replay="r"), 2).text == (
        '{"id":"1.7.1/ops","server":1,"observer":"ops","event":"1.7.1","key":"/job/1","address":"a@example.org",'
        '"replay":"r","retry":2}'
    )


@pytest.mark.parametrize("key", ["", "/job/1", "ß 日本 🎉", '\x00\x01\n\r\t\x7f\x85\u2028\ufffe\uffff"\\'])
def test_a_text_is_plain_and_gives_back_what_it_was_made_of(key: str) -> None:
    queued = Queued(a_delivery(key=key), 3)
    assert all(" " <= character < "\x80" for character in queued.text)
    assert Queued.parse(queued.text) == queued


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<delivery/>",
        "null",
        "[]",
        "{}",
        '{"retry":0}',
        Queued(a_delivery()).text.replace('"1.1.1"', '"1.1"'),
        Queued(a_delivery()).text.replace('"1.1.1"', "7"),
        Queued(a_delivery()).text.replace('"retry":0', '"retry":"x"'),
        Queued(a_delivery()).text.replace('"retry"', '"more":1,"retry"'),
    ],
)
def test_what_is_no_delivery_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="this is no delivery: "):
        Queued.parse(text)


@pytest.mark.parametrize(
    ("standing", "retry", "is_over", "tries"),
    [
        (Standing(), 0, False, 0),
        (Standing(), 1, False, 0),
        (Standing().tried(0, 3), 0, False, 3),
        (PARKED, 0, True, 5),
        (PARKED, 1, False, 0),
        (AGAIN, 0, True, 0),
        (AGAIN, 1, False, 1),
        (AGAIN.parked(1, 5), 1, True, 5),
        (AGAIN.parked(1, 5), 2, False, 0),
        (Standing().done("sent"), 0, True, 0),
        (Standing().done("sent"), 1, True, 0),
        (AGAIN.done("dropped"), 2, True, 0),
    ],
)
def test_a_message_has_nothing_to_do_once_another_one_did_it(
    standing: Standing, retry: int, is_over: bool, tries: int
) -> None:
    assert (standing.is_over(retry), standing.tries_of(retry)) == (is_over, tries)


def test_each_change_of_what_is_remembered_has_a_higher_version() -> None:
    changes = [Standing(), Standing().tried(0, 1), PARKED, AGAIN, AGAIN.done("sent")]
    assert [standing.version for standing in changes] == [0, 1, 2, 3, 4]
