"""Routes of events: appending, the core feed, and Hat's three queries."""

from dataclasses import asdict

from chalice.app import Blueprint, Response

from chalicelib.domain import vocabularies
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.vocabularies.job.events import JOB
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import Caller
from chalicelib.http.openapi.annotations import described
from chalicelib.http.routes.feeds import feed
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.server_query import ServerQuery, query_server
from chalicelib.services.reading.timeseries import timeseries
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/events", methods=["POST"], **authorizer.MEMBERS)
@described(
    "events",
    {200: "Published", 201: "Published"},
    body=parameters.AppendRequest,
    headers=("Idempotency-Key", "Prefer"),
    refusals=(409,),
)
@problems.answered
def post_events() -> Response:
    """Append events."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).publisher(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    key, briefly = requests.idempotency_key(request), requests.is_brief(request)
    texts = parts.plainly(requests.json_text(request))
    if texts is not None:
        return responses.published(parts.publish.texts(server, texts, idempotency_key=key), briefly)
    wanted = requests.body(parameters.AppendRequest, request)
    return responses.published(parts.publish(server, wanted.events, wanted.condition, key), briefly)


@routes.route("/events/{vocabulary}", methods=["POST"], **authorizer.MEMBERS)
@described(
    "events",
    {200: "PublishedEvents", 201: "PublishedEvents"},
    vocabulary="vocabulary",
    headers=("Idempotency-Key", "Prefer"),
    refusals=(409,),
)
@problems.answered
def post_vocabulary_events(vocabulary: str) -> Response:
    """Append events in the JSON of a vocabulary."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).publisher(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    wanted = requests.vocabulary_events(vocabularies.named(vocabulary), request)
    key, briefly = requests.idempotency_key(request), requests.is_brief(request)
    if vocabulary == JOB:
        done = parts.job_publishing(server, wanted.events, wanted.condition, key)
        return responses.published_jobs(done.outcome, [asdict(one) for one in done.ignored], briefly)
    return responses.published(parts.publish(server, wanted.events, wanted.condition, key), briefly)


@routes.route("/events", methods=["GET"], **authorizer.MEMBERS)
@described("events", {}, query=parameters.FeedParameters, feed="Event")
@problems.answered
def get_events() -> Response:
    """The core feed: what came after a position, or what comes next."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    wanted = requests.query(parameters.FeedParameters, request)
    return feed(wanted, server, Selection(types=wanted.types, keys=wanted.keys))


@routes.route("/events/latest", methods=["GET", "POST"], **authorizer.MEMBERS)
@described("queries", {200: "Queried"}, query_or_body=parameters.LatestParameters)
@problems.answered
def events_latest() -> Response:
    """Hat's latest query."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    wanted = requests.query_or_body(parameters.LatestParameters, request)
    servers = parts.organizations.servers(caller.meant())
    return responses.queried(latest(servers, Selection(types=wanted.types), parts.present, parts.retention))


@routes.route("/events/timeseries", methods=["GET", "POST"], **authorizer.MEMBERS)
@described("queries", {200: "Queried"}, query_or_body=parameters.TimeseriesParameters)
@problems.answered
def events_timeseries() -> Response:
    """Hat's timeseries query."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    query = requests.query_or_body(parameters.TimeseriesParameters, request).query()
    servers = parts.organizations.servers(caller.meant())
    parts.organizations.refuse_foreign(query.last_event_id, servers)
    most = parts.settings.most_results
    return responses.queried(timeseries(query, servers, parts.present, parts.retention, most))


@routes.route("/events/server", methods=["GET", "POST"], **authorizer.MEMBERS)
@described("queries", {200: "Queried"}, query_or_body=parameters.ServerParameters)
@problems.answered
def events_server() -> Response:
    """Hat's server query."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    wanted = requests.query_or_body(parameters.ServerParameters, request)
    server = parts.organizations.server_among(caller.organizations, caller.organization(), wanted.server)
    query = ServerQuery(server, wanted.last_event_id, wanted.max_results)
    return responses.queried(query_server(query, parts.log, parts.retention, parts.settings.most_results))
