"""Routes of JobScheduler: snapshots, events, statistics."""

from chalice.app import Blueprint, Response

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput
from chalicelib.domain.objects.path_query import PathQueryJson
from chalicelib.domain.queries.event_filter import ObjectSelection, Selection
from chalicelib.domain.vocabularies import SCHEDULER_VOCABULARY
from chalicelib.domain.vocabularies.scheduler.return_parameter import (
    EVENT_COLLECTION,
    ReturnEvents,
    ReturnKind,
    collection_for_name,
    parse_return,
)
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.http.routes.feeds import feed, max_wait_s, poll_response
from chalicelib.http.routes.objects import PageRequest, snapshot_response
from chalicelib.services.jobs.order_statistics import StatisticsQuery, order_statistics, order_statistics_changed

routes = Blueprint(__name__)

DEFAULT_PAGE_LIMIT = 1_000
"""Objects of a page that continues without `limit`."""


@routes.route("/jobscheduler/master/api/{collection}", methods=["GET", "POST"], **authorizer.AUTHENTICATED)
@routes.route("/jobscheduler/master/api/{collection}/{path+}", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc(
    "JobScheduler",
    {200: "SchedulerSnapshot"},
    query=parameters.SchedulerParameters,
    optional_body=PathQueryJson,
    feed="SchedulerEvent",
)
@problems.handle_errors
def jobscheduler(collection: str) -> Response:
    """JobScheduler's queries: snapshots, events, statistics."""
    context = access.reader()
    log, server = context.components.log, context.server
    params = requests.query(parameters.SchedulerParameters, context.request)
    query, name = requests.path_query(context.request, collection), collection
    collection = collection_for_name(name)
    returned = parse_return(name, params.returned)
    if collection == EVENT_COLLECTION and not query.matches_everything:
        raise BadInput("the collection 'event' has no paths; request the events of another collection")
    if params.cursor is not None and returned is not ReturnKind.OVERVIEWS:
        raise BadInput("cursor continues a list of overviews; events continue with after")
    match returned:
        case ReturnKind.OVERVIEWS:
            list_name = SCHEDULER_VOCABULARY.collections[collection]
            return snapshot_response(context, collection, query, list_name, _page_request(params))
        case ReturnKind.STATISTICS:
            boundary = log.retention.boundary(server)
            return responses.single_object(*order_statistics(log.reader, server, query, boundary))
        case ReturnKind.STATISTICS_CHANGED:
            timeout_s = min(params.timeout, max_wait_s(context))
            changed = StatisticsQuery(server, query, params.after, timeout_s, str(params.returned))
            return poll_response(context, order_statistics_changed(changed, log.reader, log.retention))
        case ReturnEvents(patterns) if collection == EVENT_COLLECTION:
            return feed(context, params, Selection(types=patterns), vocabularies.native_text)
        case ReturnEvents(patterns):
            selection = ObjectSelection(types=patterns, collection=collection, query=query)
            return feed(context, params, selection, vocabularies.native_text)


def _page_request(params: parameters.SchedulerParameters) -> PageRequest | None:
    """The page of overviews that the query asks for. None: all of them in one response."""
    if params.limit is not None and params.limit < 0:
        raise BadInput("limit must be positive: overviews are ordered by path")
    if params.limit is None and params.cursor is None:
        return None
    return PageRequest(params.limit or DEFAULT_PAGE_LIMIT, params.cursor)
