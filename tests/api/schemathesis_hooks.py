"""What Schemathesis has to know of the API beyond its description: formats of feeds, and rules no description tells."""

import zlib
from typing import Any

import httpx
import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response
from schemathesis.openapi.checks import RejectedPositiveData

from chalicelib.api.openapi.outputs import EVENT_STREAM, JSON, NDJSON
from tests.api.openapi_answers import problems_with

FORMATS = (JSON, NDJSON, EVENT_STREAM)

REFUSALS = {
    "is later than": "which of two parameters is the later",
    "is for lists: ask with brief=yes": "that a parameter goes only with a value of another",
    "at is for one object": "that two parameters exclude each other, or that one needs a path of one object",
    "Unrecognized event type: return=": "that what can be returned depends on the collection in the path",
    "the collection 'event' has no paths": "that a body goes only with some paths",
    "a stream goes forward": "that a limit may not be negative if Accept asks for a stream",
    "Last-Event-ID is an eventId of this feed": "that a header matters only if Accept asks for server-sent events",
    "was used for another request": "which Idempotency-Keys are taken",
    "is none of yours": "which logs there are for the caller",
    "is not a mail address": "how long an address may be as a whole",
    "a filter is an expression": "what Jinja takes for an expression",
    "is not among the hosts that messages may go to": "which hosts the installation allows",
}
"""For what good requests are refused all the same: a part of the problem's detail, and what no schema can say."""


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Ask for each of the formats in which the operation answers, now for this, now for that."""
    del context, kwargs
    offered = [name for name in FORMATS if name in _content(case)]
    if len(offered) > 1:
        case.headers["Accept"] = offered[zlib.crc32(repr((case.path_parameters, case.query)).encode()) % len(offered)]


@schemathesis.hook
def filter_failure(context: HookContext, failure: Exception, case: Case[Any], response: Response) -> bool:
    """Count a refusal of a good request as a failure, unless it is for one of the rules that no schema tells."""
    del context, case
    return not (isinstance(failure, RejectedPositiveData) and any(known in response.text for known in REFUSALS))


@schemathesis.check
def feed_conformance(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Every line of NDJSON, and the data of every server-sent event, is as described, and says no more than that."""
    del ctx
    media_type = response.headers.get("content-type", [""])[0].partition(";")[0]
    if response.status_code == 200 and media_type in (NDJSON, EVENT_STREAM):
        described, operation = case.operation.schema.raw_schema, case.operation.definition.raw
        answer = httpx.Response(200, headers={"Content-Type": media_type})
        assert problems_with(described, operation, answer, response.text) == []


def _content(case: Case[Any]) -> dict[str, Any]:
    found: dict[str, Any] = case.operation.definition.raw["responses"].get("200", {}).get("content", {})
    return found
