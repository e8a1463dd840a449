"""Texts that the API's description allows are taken; those that it does not, are not."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from chalicelib.adapters.mail.message import addresses
from chalicelib.domain import durations
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event_type import pattern_checked
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import idempotency_key_checked
from chalicelib.domain.notifications import observer
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.organizations import organization
from chalicelib.domain.vocabularies.scheduler.return_parameter import returned
from chalicelib.http.openapi import patterns

TAKEN: list[tuple[str, Callable[[str], object]]] = [
    (patterns.DURATION, durations.parse),
    (patterns.ID, Id.parse),
    (patterns.ORGANIZATION, organization.name_checked),
    (patterns.OBSERVER, observer.name_checked),
    (patterns.TYPE_PATTERN, lambda text: pattern_checked(tuple(text.split("/")))),
    (patterns.PATHS_IN_URL, PathQuery.from_uri),
    (patterns.PATH_IN_BODY, PathQuery.of),
    (patterns.IDEMPOTENCY_KEY, idempotency_key_checked),
]
NAMES = ["duration", "id", "organization", "observer", "type", "paths", "path", "key"]


@pytest.mark.parametrize(("pattern", "parse"), TAKEN, ids=NAMES)
def test_what_is_described_is_taken(pattern: str, parse: Callable[[str], object]) -> None:
    @settings(max_examples=100, deadline=None, database=None, phases=[Phase.generate])
    @given(st.from_regex(pattern.removesuffix("$") + r"\Z"))
    def taken(text: str) -> None:
        parse(text)

    taken()


@pytest.mark.parametrize(("pattern", "parse"), TAKEN, ids=NAMES)
def test_what_is_taken_is_described(pattern: str, parse: Callable[[str], object]) -> None:
    """Of texts made of what means something somewhere."""

    @settings(max_examples=300, deadline=None, database=None, phases=[Phase.generate])
    @given(st.text(st.sampled_from("0159.PTDHMSshm-_*?/|a "), min_size=1, max_size=8))
    def described(text: str) -> None:
        if text == text.strip() and not re.search(r"P.*[dhms]", text):
            assert (re.search(pattern, text) is not None) is is_taken(parse, text)

    described()


@pytest.mark.parametrize(
    ("collection", "text"),
    [
        ("order", "OrderOverview"),
        ("job", "JobOverview"),
        ("order", "OrderStatistics"),
        ("order", "JocOrderStatisticsChanged"),
        ("event", "Event"),
        ("task", "OrderEvent, TaskStarted,FileBasedAddedOrReplaced"),
        ("order", ""),
        ("order", "Orders"),
        ("order", "OrderEvent,"),
    ],
)
def test_what_can_be_returned_is_described(collection: str, text: str) -> None:
    is_described = re.search(patterns.RETURNED, text) is not None
    assert is_described is is_taken(lambda one: returned(collection, one), text)


@pytest.mark.parametrize(
    ("text", "is_short"),
    [("0", True), ("0.009s", True), ("0h0m0s", True), ("0.01", False), ("1h0.001s", False), ("infinite", False)],
)
def test_durations_shorter_than_ten_milliseconds_are_known(text: str, is_short: bool) -> None:
    assert (re.search(patterns.SHORTER_THAN_10_MS, text) is not None) is is_short is (durations.parse(text) < 0.01)


@pytest.mark.parametrize(
    "text",
    [
        "a@example.org",
        " a.b+c@sub-domain.example.org ,\tb@x.de",
        "",
        "a",
        "@x.de",
        "a@x..de",
        "a@x.de,, b",
        "a b@x.de",
        f"a@{'x' * 63}.de",
        f"a@{'x' * 64}.de",
    ],
)
def test_addresses_are_described_as_they_are_taken(text: str) -> None:
    assert (re.search(patterns.ADDRESSES, text) is not None) is is_taken(a_few_addresses, text)


@pytest.mark.parametrize(
    ("port", "is_one"),
    [("", True), (":1", True), (":443", True), (":65535", True), (":65536", False), (":509580", False)],
)
def test_ports_of_webhooks_are_described_as_they_are_taken(port: str, is_one: bool) -> None:
    url = f"https://hooks.example.org{port}/services/x"
    assert (re.search(patterns.WEBHOOK, url) is not None) is is_one is is_taken(lambda text: urlsplit(text).port, url)


def a_few_addresses(text: str) -> None:
    if not addresses(text):
        raise ValueError("there is none")


def is_taken(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except (ValueError, BadInput):
        return False
    return True
