"""Appends: the limits of one request, and when two requests are the same."""

import subprocess
import sys

import pytest

from chalicelib.domain.errors import BadInput, TooLarge
from chalicelib.domain.events.event import NewEvent, encode
from chalicelib.domain.log.append import (
    LONGEST_IDEMPOTENCY_KEY,
    MOST_BYTES,
    MOST_EVENTS,
    AppendCondition,
    encoded,
    idempotency_key_checked,
)
from tests.builders import a_text, an_append
from tests.serving import ROOT

AN_EVENT = NewEvent(type=("a",))
DIGEST_IN_ANOTHER_PROCESS = """
from chalicelib.domain.log.append import Append, AppendCondition
condition = AppendCondition.model_validate({"failIfEventsMatch": {"types": ["a", "b/*"], "keys": list("cdefghi")}})
print(Append(1, ("{}",), "r", condition, "k").digest)
"""


def sized(bytes_: int) -> NewEvent:
    """An event that takes this many bytes as JSON."""
    empty = NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": ""}})
    data = "x" * (bytes_ - len(encode(empty)))
    return NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": data}})


def condition(**given: object) -> AppendCondition:
    """A condition on one type, or as given."""
    return AppendCondition.model_validate({"failIfEventsMatch": {"types": ["a"]}, **given})


def test_as_many_events_as_allowed_are_encoded() -> None:
    assert encoded([AN_EVENT] * MOST_EVENTS) == (encode(AN_EVENT).decode(),) * MOST_EVENTS


def test_one_event_more_is_too_many() -> None:
    with pytest.raises(TooLarge, match="1001 events in one request; at most 1000 are allowed"):
        encoded([AN_EVENT] * (MOST_EVENTS + 1))


def test_as_many_bytes_as_allowed_are_encoded() -> None:
    one, other = sized(MOST_BYTES // 2 - 2), sized(MOST_BYTES // 2 - 2)
    assert sum(len(text) + 2 for text in encoded([one, other])) == MOST_BYTES


def test_one_byte_more_is_too_large() -> None:
    with pytest.raises(TooLarge, match=f"take {MOST_BYTES + 1} bytes as JSON; at most {MOST_BYTES} fit"):
        encoded([sized(MOST_BYTES - 1)])


def test_it_is_bytes_that_count_not_characters() -> None:
    data = "漢" * (MOST_BYTES // 3)
    with pytest.raises(TooLarge, match=f"at most {MOST_BYTES} fit"):
        encoded([NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": data}})])


@pytest.mark.parametrize("data", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_json_cannot_write_is_bad_input(data: float) -> None:
    with pytest.raises(BadInput, match="number"):
        encoded([NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": data}})])


def test_text_that_utf8_cannot_write_is_bad_input() -> None:
    with pytest.raises(BadInput, match="surrogates"):
        encoded([NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": "\ud800"}})])


@pytest.mark.parametrize("key", ["k", "a b", "~", '"', "k" * LONGEST_IDEMPOTENCY_KEY])
def test_an_idempotency_key_is_printable_ascii(key: str) -> None:
    assert idempotency_key_checked(key) == key


@pytest.mark.parametrize("key", ["", "é", "a\nb", "a\tb", "\x7f", "k" * (LONGEST_IDEMPOTENCY_KEY + 1)])
def test_what_is_no_idempotency_key_is_refused(key: str) -> None:
    with pytest.raises(BadInput, match="an Idempotency-Key has 1 to 256 printable ASCII characters"):
        idempotency_key_checked(key)


def test_a_request_is_the_same_whatever_its_id_and_key() -> None:
    one = an_append(request_id="one", idempotency_key="k", condition=condition())
    other = an_append(request_id="other", idempotency_key="l", condition=condition())
    assert one.digest == other.digest


def test_requests_with_other_events_or_conditions_are_others() -> None:
    requests = [
        an_append(),
        an_append((a_text("/b"),)),
        an_append((a_text(), a_text())),
        an_append((a_text("/b"), a_text())),
        an_append((a_text(), a_text("/b"))),
        an_append(condition=condition()),
        an_append(condition=condition(after=1)),
        an_append(condition=condition(failIfEventsMatch={})),
        an_append(condition=condition(failIfEventsMatch={"types": []})),
        an_append(condition=condition(failIfEventsMatch={"keys": ["a"]})),
    ]
    assert len({request.digest for request in requests}) == len(requests)


def test_a_request_is_the_same_however_its_keys_are_ordered() -> None:
    keys = list("cdefghi")
    digests = {an_append(condition=condition(failIfEventsMatch={"keys": given})).digest for given in (keys, keys[::-1])}
    assert len(digests) == 1


def test_a_request_is_the_same_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST_IN_ANOTHER_PROCESS],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1
