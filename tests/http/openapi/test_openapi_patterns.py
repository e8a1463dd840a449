"""The patterns in the OpenAPI document match exactly the texts that the code accepts."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from chalicelib.adapters.mail.message import parse_addresses
from chalicelib.domain import durations
from chalicelib.domain.durations import DURATION_SCHEMA
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event_type import TYPE_PATTERN, check_pattern
from chalicelib.domain.events.ids import ID_PATTERN, Id
from chalicelib.domain.expectations import expectation
from chalicelib.domain.log.append import IDEMPOTENCY_KEY_PATTERN, check_idempotency_key
from chalicelib.domain.notifications import observer
from chalicelib.domain.notifications.observer_schema import MAIL_ADDRESSES_PATTERN, WEBHOOK_PATTERN
from chalicelib.domain.objects.path_query import PATH_PATTERN, URL_PATHS_PATTERN, PathQuery
from chalicelib.domain.organizations import organization
from chalicelib.domain.vocabularies.scheduler.return_parameter import RETURN_PATTERN, parse_return
from chalicelib.http.parameters import MIN_HEARTBEAT_S, TOO_SHORT_HEARTBEAT_PATTERN

CASES: list[tuple[str, Callable[[str], object]]] = [
    (DURATION_SCHEMA["pattern"], durations.parse),
    (ID_PATTERN, Id.parse),
    (organization.NAME_PATTERN, organization.check_name),
    (observer.NAME_PATTERN, observer.check_name),
    (expectation.NAME_PATTERN, expectation.check_name),
    (TYPE_PATTERN, lambda text: check_pattern(tuple(text.split("/")))),
    (URL_PATHS_PATTERN, PathQuery.from_uri),
    (PATH_PATTERN, PathQuery.parse),
    (IDEMPOTENCY_KEY_PATTERN, check_idempotency_key),
]
NAMES = ["duration", "id", "organization", "observer", "expectation", "type", "paths", "path", "key"]


@pytest.mark.parametrize(("pattern", "parse"), CASES, ids=NAMES)
def test_parser_accepts_text_that_matches_pattern(pattern: str, parse: Callable[[str], object]) -> None:
    @settings(max_examples=100, deadline=None, database=None, phases=[Phase.generate])
    @given(st.from_regex(pattern.removesuffix("$") + r"\Z"))
    def check(text: str) -> None:
        parse(text)

    check()


@pytest.mark.parametrize(("pattern", "parse"), CASES, ids=NAMES)
def test_pattern_matches_exactly_what_parser_accepts(pattern: str, parse: Callable[[str], object]) -> None:
    """With texts of characters that have a meaning in one of the formats."""

    @settings(max_examples=300, deadline=None, database=None, phases=[Phase.generate])
    @given(st.text(st.sampled_from("0159.PTDHMSshm-_*?/|a "), min_size=1, max_size=8))
    def check(text: str) -> None:
        if text == text.strip() and not re.search(r"P.*[dhms]", text):
            assert (re.search(pattern, text) is not None) is accepts(parse, text)

    check()


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
def test_return_pattern_matches_accepted_values(collection: str, text: str) -> None:
    is_described = re.search(RETURN_PATTERN, text) is not None
    assert is_described is accepts(lambda value: parse_return(collection, value), text)


@pytest.mark.parametrize(
    ("text", "is_short"),
    [("0", True), ("0.009s", True), ("0h0m0s", True), ("0.01", False), ("1h0.001s", False), ("infinite", False)],
)
def test_heartbeat_pattern_matches_too_short_durations(text: str, is_short: bool) -> None:
    assert (
        (re.search(TOO_SHORT_HEARTBEAT_PATTERN, text) is not None)
        is is_short
        is (durations.parse(text) < MIN_HEARTBEAT_S)
    )


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
def test_address_pattern_matches_accepted_addresses(text: str) -> None:
    assert (re.search(MAIL_ADDRESSES_PATTERN, text) is not None) is accepts(parse_some_addresses, text)


@pytest.mark.parametrize(
    ("port", "is_valid"),
    [("", True), (":1", True), (":443", True), (":65535", True), (":65536", False), (":509580", False)],
)
def test_webhook_pattern_matches_valid_ports(port: str, is_valid: bool) -> None:
    url = f"https://hooks.example.org{port}/services/x"
    assert (re.search(WEBHOOK_PATTERN, url) is not None) is is_valid is accepts(lambda text: urlsplit(text).port, url)


def parse_some_addresses(text: str) -> None:
    if not parse_addresses(text):
        raise ValueError("no address")


def accepts(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except (ValueError, BadInput):
        return False
    return True
