"""What Schemathesis has to know beyond the API's description: what there is, formats of feeds, rules beyond schemas."""

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

from chalicelib.http.openapi import patterns
from chalicelib.http.openapi.outputs import EVENT_STREAM, JSON, NDJSON
from tests.http.openapi.openapi_answers import problems_with

FORMATS = (JSON, NDJSON, EVENT_STREAM)
ORGANIZATION, OBSERVER = "local", "ops"
OF_AN_OBSERVER = {"get_observer", "get_failures", "post_replay", "post_retry", "post_test"}
"""What needs an observer that is there, and leaves it there."""

REFUSALS = {
    "is later than": "which of two parameters is the later",
    "is for lists: ask with brief=yes": "that a parameter goes only with a value of another",
    "at is for one object": "that two parameters exclude each other, or that one needs a path of one object",
    "Unrecognized event type: return=": "that what can be returned depends on the collection in the path",
    "the collection 'event' has no paths": "that a body goes only with some paths",
    "a stream goes forward": "that a limit may not be negative if Accept asks for a stream",
    "Last-Event-ID is an eventId of this feed": "that a header matters only if Accept asks for server-sent events",
    "is none of yours": "which logs there are for the caller",
    "is an event of another server than": "which log an event is of",
    "lies in the future": "where the log ends, behind which no append condition can look",
    "is not a mail address": "how long an address may be as a whole",
    "a filter is an expression": "what Jinja takes for an expression",
    "is not among the hosts that messages may go to": "which hosts the installation allows",
}
"""For what good requests are refused all the same: a part of the problem's detail, and what no schema can say."""


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Ask about what there is, in each of the formats in which the operation answers, now in this, now in that.

    Another organization's name, if it is one, would be refused before the rest of the request is looked at; so would a
    key that came with another body.
    """
    del context, kwargs
    _name(case.headers, "Idempotency-Key", patterns.IDEMPOTENCY_KEY, f"{zlib.crc32(repr(case.body).encode()):x}")
    _name(case.headers, "X-Organization", patterns.ORGANIZATION, ORGANIZATION)
    _name(case.path_parameters, "org", patterns.ORGANIZATION, ORGANIZATION)
    if case.operation.definition.raw["operationId"] in OF_AN_OBSERVER and _is_by_itself(case):
        _name(case.path_parameters, "name", patterns.OBSERVER, OBSERVER)
    offered = [name for name in FORMATS if name in _content(case)]
    if len(offered) > 1:
        case.headers["Accept"] = offered[zlib.crc32(repr((case.path_parameters, case.query)).encode()) % len(offered)]


@schemathesis.hook
def filter_failure(context: HookContext, failure: Exception, case: Case[Any], response: Response) -> bool:
    """Whether it is one: not if a right request is refused by a rule that no schema tells, nor if a wrong one is
    forbidden because of its organization, for that is what is wrong with it.
    """
    del context
    match failure:
        case RejectedPositiveData():
            return not any(known in response.text for known in REFUSALS)
        case AcceptedNegativeData():
            return not (response.status_code == 403 and _names_no_organization(case))
        case _:
            return True


@schemathesis.check
def feed_conformance(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Every line of NDJSON, and the data of every server-sent event, is as described, and says no more than that."""
    del ctx
    media_type = response.headers.get("content-type", [""])[0].partition(";")[0]
    if response.status_code == 200 and media_type in (NDJSON, EVENT_STREAM):
        described, operation = case.operation.schema.raw_schema, case.operation.definition.raw
        answer = httpx.Response(200, headers={"Content-Type": media_type})
        assert problems_with(described, operation, answer, response.text) == []


def _name(values: MutableMapping[str, Any], parameter: str, pattern: str, ours: str) -> None:
    """Put our name in the place of another that is well-formed."""
    given = values.get(parameter)
    if isinstance(given, str) and re.search(pattern, given):
        values[parameter] = ours


def _names_no_organization(case: Case[Any]) -> bool:
    """Whether what stands where an organization is named is no name of one."""
    named = (case.headers.get("X-Organization", ORGANIZATION), case.path_parameters.get("org", ORGANIZATION))
    return not all(isinstance(one, str) and re.search(patterns.ORGANIZATION, one) for one in named)


def _is_by_itself(case: Case[Any]) -> bool:
    """Whether the request does not go on with what others left behind."""
    return case.meta is not None and case.meta.phase.name is not TestPhase.STATEFUL


def _content(case: Case[Any]) -> dict[str, Any]:
    found: dict[str, Any] = case.operation.definition.raw["responses"].get("200", {}).get("content", {})
    return found
