"""What a view takes and gives, told beside it: of this `GET /openapi.json` is made.

    @routes.route("/observers/{name}/retry", methods=["POST"], **access.MEMBERS)
    @described("observers", {200: "Retried"}, body_or_nothing=observer_parameters.RetryRequest, refusals=(404,))
    @problems.answered
    def post_retry(name: str) -> Response:

Models are named as the functions of `requests` that parse with them: `query`, `body`, `body_or_nothing`,
`query_or_body`; a test compares. Answers are names of types in `chalicelib.http.openapi.answers`, which are loaded only
when somebody asks for the description. What every route of its kind may refuse is not repeated: 401 and 403 of those
that need a token, 404 of those of an organization, 400 of those that parse, 413 and 415 of those with a body, 422 of
those with an Idempotency-Key, 406 of streams, 500 and 503 of all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

View = TypeVar("View", bound=Callable[..., Any])

Header = Literal["Idempotency-Key", "Last-Event-ID", "If-None-Match", "Prefer"]

_ATTRIBUTE = "description"


@dataclass(frozen=True, slots=True)
class Description:
    """What a view takes and gives. As a decorator it changes nothing: the view has it as an attribute."""

    tag: str
    """The subject under which it is listed."""
    answers: Mapping[int, str]
    """The name of the type of its JSON, by status."""
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    body_or_nothing: type[BaseModel] | None = None
    query_or_body: type[BaseModel] | None = None
    """With GET the query, with POST the body."""
    vocabulary: str = ""
    """The parameter of its path that says in which vocabulary the events of its body are."""
    feed: str = ""
    """The name of the type of a feed's events, which come as EventSeq, NDJSON or server-sent events, by Accept."""
    stream: str = ""
    """The name of the type of its server-sent events, if they are all that it answers."""
    media: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The content types of what is not JSON, by status; none: there is no content."""
    organization: bool = True
    """Whether it is about an organization: the header X-Organization may say which, if its path does not."""
    headers: tuple[Header, ...] = ()
    """What it reads of the request's headers, besides X-Organization and what feeds read."""
    refusals: tuple[int, ...] = ()
    """The statuses of problems that it has beyond those of its kind."""

    def __call__(self, view: View) -> View:
        """The same view, with its description attached."""
        setattr(view, _ATTRIBUTE, self)
        return view


described = Description


def description_of(view: Callable[..., Any]) -> Description | None:
    """What was said of the view."""
    found: Description | None = getattr(view, _ATTRIBUTE, None)
    return found
