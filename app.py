"""The API and the functions of Annals: routes, authorizer, queue and plain functions. No logic."""

from typing import Any, cast

from chalice.app import AuthRequest, AuthResponse, Chalice, Request, Response

from chalicelib import __version__
from chalicelib.api import callers, parameters, problems, requests, responses, sqs
from chalicelib.api.callers import Caller
from chalicelib.api.tokens import BadToken
from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput
from chalicelib.domain.objects import ObjectRef
from chalicelib.domain.path_query import PathQuery
from chalicelib.domain.selection import ObjectSelection, Selection
from chalicelib.domain.vocabularies import scheduler
from chalicelib.domain.vocabularies.scheduler.returns import EVENTS, Events, Returned, returned
from chalicelib.services import health
from chalicelib.services.feed import FeedQuery, follow, stream
from chalicelib.services.ingest import ingest as ingest_messages
from chalicelib.services.latest import latest
from chalicelib.services.order_statistics import StatisticsQuery, order_statistics, order_statistics_changed
from chalicelib.services.read import Form
from chalicelib.services.server_query import ServerQuery, query_server
from chalicelib.services.snapshot import snapshot
from chalicelib.services.timeseries import timeseries
from chalicelib.wiring import annals

app = Chalice(app_name="annals", configure_logs=False)
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
    wanted = requests.body(parameters.AppendRequest, request)
    key = requests.idempotency_key(request)
    return responses.published(parts.publish(server, wanted.events, wanted.condition, key))


@app.route("/events/{vocabulary}", methods=["POST"], authorizer=bearer, content_types=ANY)
@problems.answered
def post_vocabulary_events(vocabulary: str) -> Response:
    """Append events in the JSON of a vocabulary."""
    request, parts = _request(), annals()
    caller = Caller.of(request).publisher(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    wanted = requests.vocabulary_events(vocabularies.named(vocabulary), request)
    key = requests.idempotency_key(request)
    return responses.published(parts.publish(server, wanted.events, wanted.condition, key))


@app.route("/events", methods=["GET"], authorizer=bearer, content_types=ANY)
@problems.answered
def get_events() -> Response:
    """The core feed: what came after a position, or what comes next."""
    request, parts = _request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    wanted = requests.query(parameters.FeedParameters, request)
    return _feed(wanted, server, Selection(types=wanted.types, keys=wanted.keys))


@app.route("/events/latest", methods=["GET", "POST"], authorizer=bearer, content_types=ANY)
@problems.answered
def events_latest() -> Response:
    """Hat's latest query."""
    request, parts = _request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    wanted = requests.query_or_body(parameters.LatestParameters, request)
    servers = parts.organizations.servers(caller.meant())
    return responses.queried(latest(servers, Selection(types=wanted.types), parts.present, parts.retention))


@app.route("/events/timeseries", methods=["GET", "POST"], authorizer=bearer, content_types=ANY)
@problems.answered
def events_timeseries() -> Response:
    """Hat's timeseries query."""
    request, parts = _request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    query = requests.query_or_body(parameters.TimeseriesParameters, request).query()
    servers = parts.organizations.servers(caller.meant())
    parts.organizations.refuse_foreign(query.last_event_id, servers)
    most = parts.settings.most_results
    return responses.queried(timeseries(query, servers, parts.present, parts.retention, most))


@app.route("/events/server", methods=["GET", "POST"], authorizer=bearer, content_types=ANY)
@problems.answered
def events_server() -> Response:
    """Hat's server query."""
    request, parts = _request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    wanted = requests.query_or_body(parameters.ServerParameters, request)
    server = parts.organizations.server_among(caller.organizations, caller.organization(), wanted.server)
    query = ServerQuery(server, wanted.last_event_id, wanted.max_results)
    return responses.queried(query_server(query, parts.log, parts.retention, parts.settings.most_results))


@app.route("/jobscheduler/master/api/{collection}", methods=["GET", "POST"], authorizer=bearer, content_types=ANY)
@app.route("/jobscheduler/master/api/{collection}/{path+}", methods=["GET"], authorizer=bearer, content_types=ANY)
@problems.answered
def jobscheduler(collection: str) -> Response:
    """JobScheduler's queries: snapshots, events, statistics."""
    request, parts = _request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    wanted = requests.query(parameters.SchedulerParameters, request)
    asked = returned(collection, wanted.returned)
    query = requests.path_query(request, collection)
    if collection == EVENTS and not query.is_everything:
        raise BadInput("the collection 'event' has no paths; ask for the events of another collection")
    match asked:
        case Returned.OVERVIEWS:
            return _objects(server, collection, query, scheduler.COLLECTIONS[collection])
        case Returned.STATISTICS:
            return responses.one_object(*order_statistics(parts.present, server, query))
        case Returned.STATISTICS_CHANGED:
            timeout_s = min(wanted.timeout, parts.settings.longest_poll_s)
            changed = StatisticsQuery(server, query, wanted.after, timeout_s)
            return responses.event_seq(order_statistics_changed(changed, parts.present, parts.wake, parts.retention))
        case Events(patterns) if collection == EVENTS:
            return _feed(wanted, server, Selection(types=patterns), vocabularies.own_text)
        case Events(patterns):
            selection = ObjectSelection(types=patterns, collection=collection, query=query)
            return _feed(wanted, server, selection, vocabularies.own_text)


@app.route("/objects/{collection}", methods=["GET"], authorizer=bearer, content_types=ANY)
@app.route("/objects/{collection}/{path+}", methods=["GET"], authorizer=bearer, content_types=ANY)
@problems.answered
def get_objects(collection: str) -> Response:
    """A snapshot of any objects."""
    request, parts = _request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    requests.query(parameters.NoParameters, request)
    query = requests.path_query(request, vocabularies.collection_checked(collection))
    return _objects(server, collection, query, "elements")


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
    wanted = requests.checked(parameters.PublishRequest, event)
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


def _feed(wanted: parameters.FollowParameters, server: int, selection: Selection, form: Form | None = None) -> Response:
    parts = annals()
    query = FeedQuery(
        server,
        selection,
        wanted.after,
        wanted.limit,
        timeout_s=min(wanted.timeout, parts.settings.longest_poll_s),
        delay_s=min(wanted.delay, parts.settings.longest_poll_s),
        oldest=None if wanted.torn_older is None else parts.clock() * 1000 - int(min(wanted.torn_older, 1e9) * 1e6),
        form=form,
    )
    if requests.accepts(_request(), "application/x-ndjson"):
        seqs = stream(query, parts.present, parts.wake, parts.retention, wanted.heartbeat)
        return responses.event_lines(seqs, parts.settings.streams)
    return responses.event_seq(follow(query, parts.present, parts.wake, parts.retention))


def _objects(server: int, collection: str, query: PathQuery, name: str) -> Response:
    found = snapshot(annals().present, server, collection, query)
    if query.single is not None and vocabularies.is_exact(ObjectRef(collection, query.single)):
        return responses.one_object(found.event_id, found.one(query.single))
    return responses.objects(found.event_id, found.states.values(), name)


def _request() -> Request:
    """The request at hand; there is one whenever a route's function runs."""
    return cast(Request, app.current_request)
