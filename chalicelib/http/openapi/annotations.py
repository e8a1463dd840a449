"""The decorator `@route_doc`: parameters, bodies and responses of a view, for `GET /openapi.json`.

    @routes.route("/observers/{name}/retry", methods=["POST"], **authorizer.AUTHENTICATED)
    @route_doc("observers", {200: "Retried"}, optional_body=observer_parameters.RetryRequest, problems=(404,))
    @problems.handle_errors
    def post_retry(name: str) -> Response:

The models are given under the name of the function of `requests` that parses them: `query`, `body`, `optional_body` or
`query_or_body`. A test compares the two. Responses are names of types in `openapi.response_types`, which
are loaded only when a client requests the document.

Problems that all routes of a kind have are added automatically: 401 and 403 with a token, 404 with an organization, 400
with a query or a body, 413 and 415 with a body, 422 with an Idempotency-Key, 406 with a stream, 500 and 503 always.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

View = TypeVar("View", bound=Callable[..., Any])

Header = Literal["Idempotency-Key", "Last-Event-ID", "If-None-Match", "Prefer"]

_ATTRIBUTE = "route_doc"


@dataclass(frozen=True, slots=True)
class RouteDoc:
    """Documentation of a view. As a decorator it attaches itself to the view, which it does not change."""

    tag: str
    """The heading under which the operation is listed."""
    responses: Mapping[int, str]
    """The type name of the JSON response, by status."""
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    optional_body: type[BaseModel] | None = None
    query_or_body: type[BaseModel] | None = None
    """Parsed from the query with GET, from the body with POST."""
    text_body: bool = False
    """Whether POST takes any text as its body."""
    vocabulary: str = ""
    """The path parameter that names the vocabulary of the events in the body."""
    feed: str = ""
    """The type name of a feed's events, which are sent as EventSeq, NDJSON or server-sent events, as Accept says."""
    stream: str = ""
    """The name of the stream in `response_types.push.STREAMS`, for routes that only send server-sent events."""
    media_types: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The content types of responses other than JSON, by status. An empty tuple means no content."""
    organization: bool = True
    """Whether the route concerns one organization, which X-Organization selects unless the path names it."""
    headers: tuple[Header, ...] = ()
    """Request headers that the view reads, in addition to X-Organization and the headers of feeds."""
    problems: tuple[int, ...] = ()
    """Statuses of problems in addition to those that are added automatically."""

    def __call__(self, view: View) -> View:
        setattr(view, _ATTRIBUTE, self)
        return view


route_doc = RouteDoc


def route_doc_of(view: Callable[..., Any]) -> RouteDoc | None:
    doc: RouteDoc | None = getattr(view, _ATTRIBUTE, None)
    return doc
