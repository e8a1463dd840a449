"""Append requests: their limits, and their digests."""

import subprocess
import sys

import pytest

from chalicelib.domain.errors import BadInput, TooLarge
from chalicelib.domain.events.event import NewEvent, encode
from chalicelib.domain.log.append import (
    MAX_BYTES,
    MAX_EVENTS,
    MAX_IDEMPOTENCY_KEY_LENGTH,
    AppendCondition,
    check_idempotency_key,
    encode_within_limits,
)
from chalicelib.domain.queries.event_filter import AnySelection, Selection
from tests.builders import a_text, an_append
from tests.serving import ROOT

AN_EVENT = NewEvent(type=("a",))
DIGEST_IN_ANOTHER_PROCESS = """
from chalicelib.domain.log.append import Append, AppendCondition
condition = AppendCondition.model_validate({"failIfEventsMatch": {"types": ["a", "b/*"], "keys": list("cdefghi")}})
print(Append(1, ("{}",), "r", condition, "k").digest)
"""


def event_of_size(bytes_: int) -> NewEvent:
    """An event with `bytes_` bytes of JSON."""
    empty = NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": ""}})
    data = "x" * (bytes_ - len(encode(empty)))
    return NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": data}})


def condition(**fields: object) -> AppendCondition:
    return AppendCondition.model_validate({"failIfEventsMatch": {"types": ["a"]}, **fields})


def test_encode_max_events_succeeds() -> None:
    assert encode_within_limits([AN_EVENT] * MAX_EVENTS) == (encode(AN_EVENT).decode(),) * MAX_EVENTS


def test_encode_more_than_max_events_raises_too_large() -> None:
    with pytest.raises(TooLarge, match="1001 events in one request; at most 1000 are allowed"):
        encode_within_limits([AN_EVENT] * (MAX_EVENTS + 1))


def test_encode_max_bytes_succeeds() -> None:
    events = [event_of_size(MAX_BYTES // 2 - 2)] * 2
    assert sum(len(text) + 2 for text in encode_within_limits(events)) == MAX_BYTES


def test_encode_more_than_max_bytes_raises_too_large() -> None:
    with pytest.raises(TooLarge, match=f"have {MAX_BYTES + 1} bytes as JSON; at most {MAX_BYTES} are allowed"):
        encode_within_limits([event_of_size(MAX_BYTES - 1)])


def test_encode_limit_counts_bytes_not_characters() -> None:
    data = "漢" * (MAX_BYTES // 3)
    with pytest.raises(TooLarge, match=f"at most {MAX_BYTES} are allowed"):
        encode_within_limits([NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": data}})])


def test_digest_without_tags_is_that_of_version_0_1() -> None:
    """A publisher may repeat a request after an upgrade."""
    condition = AppendCondition(fail_if_events_match=Selection(types=(("a",),), keys=("/k",)), after=7)
    assert an_append((encode(AN_EVENT).decode(),), condition=condition).digest == "e9403570c957e9266dd1ab2264845d79"


def test_digest_depends_on_every_item_of_condition() -> None:
    item, other = Selection(tags=("a",)), Selection(tags=("b",))
    selections = [item, other, *(AnySelection(items=items) for items in [(item, other), (other, item), (item, item)])]
    conditions = [AppendCondition(fail_if_events_match=selection) for selection in selections]
    assert len({an_append(("{}",), condition=condition).digest for condition in conditions}) == 5


@pytest.mark.parametrize("data", [float("inf"), float("-inf"), float("nan")])
def test_encode_non_finite_number_raises_bad_input(data: float) -> None:
    with pytest.raises(BadInput, match="number"):
        encode_within_limits([NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": data}})])


def test_encode_lone_surrogate_raises_bad_input() -> None:
    with pytest.raises(BadInput, match="surrogates"):
        encode_within_limits([NewEvent.model_validate({"type": ["a"], "payload": {"type": "json", "data": "\ud800"}})])


@pytest.mark.parametrize("key", ["k", "a b", "~", '"', "k" * MAX_IDEMPOTENCY_KEY_LENGTH])
def test_idempotency_key_printable_ascii_is_valid(key: str) -> None:
    assert check_idempotency_key(key) == key


@pytest.mark.parametrize("key", ["", "é", "a\nb", "a\tb", "\x7f", "k" * (MAX_IDEMPOTENCY_KEY_LENGTH + 1)])
def test_idempotency_key_invalid_raises_bad_input(key: str) -> None:
    with pytest.raises(BadInput, match="an Idempotency-Key has 1 to 256 printable ASCII characters"):
        check_idempotency_key(key)


def test_digest_ignores_request_id_and_idempotency_key() -> None:
    first = an_append(request_id="one", idempotency_key="k", condition=condition())
    second = an_append(request_id="other", idempotency_key="l", condition=condition())
    assert first.digest == second.digest


def test_digest_depends_on_events_and_condition() -> None:
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


def test_digest_ignores_order_of_condition_keys() -> None:
    keys = list("cdefghi")
    digests = {
        an_append(condition=condition(failIfEventsMatch={"keys": ordered})).digest for ordered in (keys, keys[::-1])
    }
    assert len(digests) == 1


def test_digest_is_the_same_in_every_process() -> None:
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
