"""Routes of events: append, the core feed, and Hat's three queries."""

from dataclasses import asdict

from chalice.app import Blueprint, Response

from chalicelib.domain import vocabularies
from chalicelib.domain.log.append import encode_within_limits
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.vocabularies.job.events import JOB
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.http.routes.feeds import feed
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.server_query import ServerQuery, query_server, query_unknown_server
from chalicelib.services.reading.timeseries import timeseries

routes = Blueprint(__name__)


@routes.route("/events", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc(
    "events",
    {200: "Published", 201: "Published"},
    body=parameters.AppendRequest,
    headers=("Idempotency-Key", "Prefer"),
    problems=(409,),
)
@problems.handle_errors
def post_events() -> Response:
    """Append events."""
    context = access.publisher()
    request, log = context.request, context.components.log
    key, is_minimal = requests.idempotency_key(request), requests.prefers_minimal(request)
    texts, condition = requests.append_texts(request)
    submitted = log.publisher.submit(context.server, texts, condition, key, context.caller.audit_name)
    return responses.append_response(submitted, is_minimal)


@routes.route("/events/{vocabulary}", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc(
    "events",
    {200: "PublishedEvents", 201: "PublishedEvents"},
    vocabulary="vocabulary",
    headers=("Idempotency-Key", "Prefer"),
    problems=(409,),
)
@problems.handle_errors
def post_vocabulary_events(vocabulary: str) -> Response:
    """Append events in the JSON of a vocabulary."""
    context = access.publisher()
    request, components = context.request, context.components
    append = requests.vocabulary_events(vocabularies.by_name(vocabulary), request)
    key, is_minimal = requests.idempotency_key(request), requests.prefers_minimal(request)
    if vocabulary == JOB:
        by = context.caller.audit_name
        result = components.jobs.publisher.publish(context.server, append.events, append.condition, key, by)
        ignored = [asdict(event) for event in result.ignored]
        return responses.job_append_response(result.outcome, result.event_count, ignored, result.ids, is_minimal)
    texts = encode_within_limits(append.events)
    by = context.caller.audit_name
    submitted = components.log.publisher.submit(context.server, texts, append.condition, key, by)
    return responses.append_response(submitted, is_minimal)


@routes.route("/events", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("events", {}, query=parameters.FeedParameters, feed="Event")
@problems.handle_errors
def get_events() -> Response:
    """The core feed: the events after a position. It can wait for new events."""
    context = access.reader()
    query = requests.query(parameters.FeedParameters, context.request)
    return feed(context, query, Selection(types=query.types, keys=query.keys, tags=query.tags))


@routes.route("/events/query", methods=["POST"], **authorizer.AUTHENTICATED)
@route_doc("events", {}, body=parameters.EventQueryRequest, feed="Event")
@problems.handle_errors
def query_events() -> Response:
    """The core feed with a query of several items: an event is returned if it matches at least one of them."""
    context = access.reader()
    query = requests.body(parameters.EventQueryRequest, context.request)
    return feed(context, query, query.selection)


@routes.route("/events/latest", methods=["GET", "POST"], **authorizer.AUTHENTICATED)
@route_doc("queries", {200: "Queried"}, query_or_body=parameters.LatestParameters)
@problems.handle_errors
def events_latest() -> Response:
    """Hat's latest query."""
    context = access.multi_log_reader()
    log, max_results = context.components.log, context.components.settings.max_results
    params = requests.query_or_body(parameters.LatestParameters, context.request)
    servers = log.organizations.servers(context.caller.selected_organizations())
    limit = max_results if params.max_results is None else min(params.max_results, max_results)
    selection, last = Selection(types=params.types), params.last_event_id
    return responses.query_page(latest(servers, selection, log.reader, log.retention, limit, last))


@routes.route("/events/timeseries", methods=["GET", "POST"], **authorizer.AUTHENTICATED)
@route_doc("queries", {200: "Queried"}, query_or_body=parameters.TimeseriesParameters)
@problems.handle_errors
def events_timeseries() -> Response:
    """Hat's timeseries query."""
    context = access.multi_log_reader()
    log, max_results = context.components.log, context.components.settings.max_results
    query = requests.query_or_body(parameters.TimeseriesParameters, context.request).query()
    servers = log.organizations.servers(context.caller.selected_organizations())
    return responses.query_page(timeseries(query, servers, log.reader, log.retention, max_results))


@routes.route("/events/server", methods=["GET", "POST"], **authorizer.AUTHENTICATED)
@route_doc("queries", {200: "Queried"}, query_or_body=parameters.ServerParameters)
@problems.handle_errors
def events_server() -> Response:
    """Hat's server query."""
    context = access.multi_log_reader()
    caller, log = context.caller, context.components.log
    params = requests.query_or_body(parameters.ServerParameters, context.request)
    organization = caller.organization()  # checks the header X-Organization, even if the request names a server
    server = log.organizations.server(organization) if params.server is None else params.server
    query = ServerQuery(server, params.last_event_id, params.max_results)
    if params.server is not None and not log.organizations.owns_server(caller.organizations, server):
        return responses.query_page(query_unknown_server(query))
    max_results = context.components.settings.max_results
    return responses.query_page(query_server(query, log.reader.log, log.retention, max_results, log.reader.page_size))
