"""Routes of JobScheduler: snapshots, events, statistics."""

from chalice.app import Blueprint, Response

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput
from chalicelib.domain.objects.path_query import PathQueryJson
from chalicelib.domain.queries.event_filter import ObjectSelection, Selection
from chalicelib.domain.vocabularies import scheduler
from chalicelib.domain.vocabularies.scheduler.return_parameter import (
    EVENTS,
    Events,
    Returned,
    collection_called,
    returned,
)
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import Caller
from chalicelib.http.openapi.annotations import described
from chalicelib.http.routes.feeds import feed, longest_s, polled
from chalicelib.http.routes.objects import object_snapshot
from chalicelib.services.jobs.order_statistics import StatisticsQuery, order_statistics, order_statistics_changed
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/jobscheduler/master/api/{collection}", methods=["GET", "POST"], **authorizer.MEMBERS)
@routes.route("/jobscheduler/master/api/{collection}/{path+}", methods=["GET"], **authorizer.MEMBERS)
@described(
    "jobscheduler",
    {200: "SchedulerSnapshot"},
    query=parameters.SchedulerParameters,
    body_or_nothing=PathQueryJson,
    feed="SchedulerEvent",
)
@problems.answered
def jobscheduler(collection: str) -> Response:
    """JobScheduler's queries: snapshots, events, statistics."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    wanted = requests.query(parameters.SchedulerParameters, request)
    query, name = requests.path_query(request, collection), collection
    collection = collection_called(name)
    asked = returned(name, wanted.returned)
    if collection == EVENTS and not query.is_everything:
        raise BadInput("the collection 'event' has no paths; ask for the events of another collection")
    match asked:
        case Returned.OVERVIEWS:
            return object_snapshot(server, collection, query, scheduler.COLLECTIONS[collection])
        case Returned.STATISTICS:
            return responses.one_object(*order_statistics(parts.present, server, query))
        case Returned.STATISTICS_CHANGED:
            changed = StatisticsQuery(server, query, wanted.after, min(wanted.timeout, longest_s()))
            return polled(order_statistics_changed(changed, parts.present, parts.retention))
        case Events(patterns) if collection == EVENTS:
            return feed(wanted, server, Selection(types=patterns), vocabularies.own_text)
        case Events(patterns):
            selection = ObjectSelection(types=patterns, collection=collection, query=query)
            return feed(wanted, server, selection, vocabularies.own_text)
