"""The API and the functions of Annals: routes, authorizer, queue and plain functions. No logic."""

from typing import Any, cast

from chalice.app import AuthRequest, AuthResponse, Chalice, Request, Response

from chalicelib import __version__
from chalicelib.api import callers, problems, requests, responses, sqs
from chalicelib.api.callers import Caller
from chalicelib.api.tokens import BadToken
from chalicelib.domain.selection import Selection
from chalicelib.services import health
from chalicelib.services.feed import FeedQuery, follow
from chalicelib.services.ingest import ingest as ingest_messages
from chalicelib.services.server_query import ServerQuery, query_server
from chalicelib.wiring import annals

app = Chalice(app_name="annals")
app.api.binary_types = []

ANY = ["*/*"]
"""Content types are judged by `requests`, so that the refusal is a problem document too."""


@app.authorizer(ttl_seconds=60)
def bearer(auth_request: AuthRequest) -> AuthResponse:
    """Let in whoever has a good token; what they may do is each route's matter."""
    try:
        claims = annals().verifier.verify(auth_request.token)
    except BadToken as refusal:
        # API Gateway answers 401 to exactly this text, 500 to any other.
        raise Exception("Unauthorized") from refusal
    return AuthResponse(routes=["*"], principal_id=claims.user, context=callers.context(claims))


@app.route("/events", methods=["POST"], authorizer=bearer, content_types=ANY)
@problems.answered
def post_events() -> Response:
    """Append events."""
    request, parts = _request(), annals()
    caller = Caller.of(request).publisher(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    wanted = requests.body(requests.AppendRequest, request)
    key = requests.idempotency_key(request)
    return responses.published(parts.publish(server, wanted.events, wanted.condition, key))


@app.route("/events", methods=["GET"], authorizer=bearer, content_types=ANY)
@problems.answered
def get_events() -> Response:
    """The core feed: what came after a position, or what comes next."""
    request, parts = _request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    wanted = requests.query(requests.FeedParameters, request)
    query = FeedQuery(
        server,
        Selection(types=wanted.types, keys=wanted.keys),
        wanted.after,
        wanted.limit,
        min(wanted.timeout, parts.settings.longest_poll_s),
    )
    return responses.event_seq(follow(query, parts.log, parts.wake))


@app.route("/events/server", methods=["GET", "POST"], authorizer=bearer, content_types=ANY)
@problems.answered
def events_server() -> Response:
    """Hat's server query."""
    request, parts = _request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    wanted = requests.query_or_body(requests.ServerParameters, request)
    server = parts.organizations.server_among(caller.organizations, caller.organization(), wanted.server)
    query = ServerQuery(server, wanted.last_event_id, wanted.max_results)
    return responses.queried(query_server(query, parts.log, parts.settings.most_results))


@app.route("/organizations/{org}", methods=["PUT"], authorizer=bearer, content_types=ANY)
@problems.answered
def put_organization(org: str) -> Response:
    """Create an organization."""
    parts = annals()
    caller = Caller.of(_request()).admin(parts.settings.groups)
    return responses.organization(*parts.organizations.create(caller.organization(org)))


@app.route("/health", methods=["GET"], content_types=ANY)
@problems.answered
def get_health() -> Response:
    """Whether the log can be read, and where it stands."""
    parts = annals()
    return responses.health(health.heads(parts.log, parts.organizations), __version__)


@app.lambda_function(name="publish")
def publish(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Append events on behalf of whoever may invoke this function."""
    del context
    parts = annals()
    wanted = requests.checked(requests.PublishRequest, event)
    server = parts.organizations.server(wanted.org)
    return responses.published_value(
        parts.publish(server, wanted.events, wanted.condition, wanted.idempotency_key).result()
    )


@app.lambda_function(name="ingest")
def ingest(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Append what the ingest queue brings; what fails is brought again."""
    del context
    parts = annals()
    failures = ingest_messages(sqs.messages(event), parts.organizations, parts.appender, parts.log)
    return sqs.partial_failures(failures)


def _request() -> Request:
    """The request at hand; there is one whenever a route's function runs."""
    return cast(Request, app.current_request)
