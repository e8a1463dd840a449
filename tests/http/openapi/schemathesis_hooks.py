"""Hooks for Schemathesis: names of existing objects, formats of feeds, and rules that no schema can state."""

import os
import re
import zlib
from collections.abc import MutableMapping
from typing import Any

import httpx
import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.generation.meta import TestPhase
from schemathesis.openapi.checks import RejectedPositiveData

from chalicelib.domain.expectations import expectation
from chalicelib.domain.log.append import IDEMPOTENCY_KEY_PATTERN
from chalicelib.domain.notifications import observer
from chalicelib.domain.organizations import organization
from chalicelib.domain.pings import ping_key
from chalicelib.http.openapi.outputs import EVENT_STREAM, JSON, NDJSON
from tests.http.openapi.response_checks import deviations

FORMATS = (JSON, NDJSON, EVENT_STREAM)
ORGANIZATION, OBSERVER, EXPECTATION = "local", "ops", "nightly"
NEEDS_OBSERVER = {"get_observer", "get_failures", "post_replay", "post_retry", "post_snooze", "post_test"}
"""Operations that need an existing observer and do not delete it."""

UNDESCRIBED_RULES = {
    "is later than": "the order of two parameters",
    "requires brief=yes": "a parameter that requires a certain value of another one",
    "at and brief=yes exclude each other": "parameters that exclude each other",
    "exclude each other: at returns one object": "parameters that exclude each other",
    "cursor and brief=yes exclude each other": "parameters that exclude each other",
    "cursor: use the cursor of the previous page": "text that an earlier response contains",
    "cursor: it is not the cursor of a page": "text that an earlier response contains",
    "cursor: it belongs to another": "text that an earlier response to the same query contains",
    "cursor continues a list of overviews": "a parameter that is valid only with some values of `return`",
    "limit must be positive: overviews": "a negative limit, which is valid only if `return` names events",
    "at requires the path of one object": "a parameter that is valid only with some paths",
    "Unrecognized event type: return=": "valid values of `return` depend on the collection in the path",
    "the collection 'event' has no paths": "a body that is valid only with some paths",
    "before requires a negative limit": "a parameter that requires a certain value of another one",
    "types, keys and tags; at most": "the number of elements in several lists together",
    "limit must be positive: a stream": "a negative limit, which is invalid only if Accept asks for a stream",
    "Last-Event-ID must be an eventId of this feed": "a header that is read only if Accept asks for server-sent events",
    ", not to server ": "the log that contains an event",
    "there is no number after": "the greatest id of a job in the log",
    "is beyond the end of the inbox": "the end of the inbox, which a read mark must not exceed",
    "give either event (": "parameters that exclude each other",
    "is beyond the end of the log": "the end of the log, which an append condition must not exceed",
    "is not a mail address": "the maximum length of an address",
    "until must be later than now": "a time in the future",
    "unknown time zone": "the names of time zones",
    "a filter is an expression": "the syntax of Jinja expressions",
    "it has five fields": "the syntax of cron expressions",
    "must be between PT": "the limits of durations",
    "is longer than the shortest time between two runs": "the limit of `grace`, which depends on another field",
    "is not a public host": "the hosts that the installation allows",
    "is not among the allowed hosts": "the hosts that the installation allows",
    "which is allowed only for hosts in WEBHOOK_HOSTS": "the hosts that need no encryption",
    "config.urls: ": "the URLs that Apprise knows, and those that are stored",
    "channel: 'apprise' ": "whether the installation has Apprise",
    "channel: 'eventbridge' ": "whether the installation is on AWS",
}
"""Problems with requests that match the schemas: a part of the detail, and the rule that no schema can state."""


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Use names of existing objects, and vary the format of the response.

    A request with an unknown organization, or with an idempotency key of another request, would be refused before the
    rest of it is validated.
    """
    del context, kwargs
    request = repr((case.body, case.path_parameters, case.query))
    _replace_valid(case.headers, "Idempotency-Key", IDEMPOTENCY_KEY_PATTERN, f"{zlib.crc32(request.encode()):x}")
    _replace_valid(case.headers, "X-Organization", organization.NAME_PATTERN, ORGANIZATION)
    _replace_valid(case.path_parameters, "org", organization.NAME_PATTERN, ORGANIZATION)
    _replace_valid(case.path_parameters, "key", ping_key.KEY_PATTERN, os.environ["PING_KEY"])
    if case.operation.definition.raw["operationId"] in NEEDS_OBSERVER and _is_stateless(case):
        _replace_valid(case.path_parameters, "name", observer.NAME_PATTERN, OBSERVER)
    if case.operation.definition.raw["operationId"] == "get_expectation" and _is_stateless(case):
        _replace_valid(case.path_parameters, "name", expectation.NAME_PATTERN, EXPECTATION)
    formats = [name for name in FORMATS if name in _content(case)]
    if len(formats) > 1:
        case.headers["Accept"] = formats[zlib.crc32(repr((case.path_parameters, case.query)).encode()) % len(formats)]


@schemathesis.hook
def filter_failure(context: HookContext, failure: Exception, case: Case[Any], response: Response) -> bool:
    """Return False for expected failures.

    A valid request may break a rule that no schema states. An invalid request may be forbidden if the invalid part is
    its organization.
    """
    del context
    match failure:
        case RejectedPositiveData():
            return not any(detail in response.text for detail in UNDESCRIBED_RULES)
        case AcceptedNegativeData():
            return not (response.status_code == 403 and _has_invalid_organization(case))
        case _:
            return True


@schemathesis.check
def feed_conformance(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Validate every line of NDJSON and the data of every server-sent event."""
    del ctx
    media_type = response.headers.get("content-type", [""])[0].partition(";")[0]
    if response.status_code == 200 and media_type in (NDJSON, EVENT_STREAM):
        document, operation = case.operation.schema.raw_schema, case.operation.definition.raw
        headers = httpx.Response(200, headers={"Content-Type": media_type})
        assert deviations(document, operation, headers, response.text) == []


def _replace_valid(values: MutableMapping[str, Any], parameter: str, pattern: str, replacement: str) -> None:
    """Replace a well-formed value."""
    value = values.get(parameter)
    if isinstance(value, str) and re.search(pattern, value):
        values[parameter] = replacement


def _has_invalid_organization(case: Case[Any]) -> bool:
    values = (case.headers.get("X-Organization", ORGANIZATION), case.path_parameters.get("org", ORGANIZATION))
    return not all(isinstance(value, str) and re.search(organization.NAME_PATTERN, value) for value in values)


def _is_stateless(case: Case[Any]) -> bool:
    return case.meta is not None and case.meta.phase.name is not TestPhase.STATEFUL


def _content(case: Case[Any]) -> dict[str, Any]:
    content: dict[str, Any] = case.operation.definition.raw["responses"].get("200", {}).get("content", {})
    return content
