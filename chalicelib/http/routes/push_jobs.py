"""Routes of push jobs: their feeds, and the jobs themselves."""

from chalice.app import Blueprint, Response

from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.http.routes.feeds import EVENT_STREAM, JSON, stream_response

routes = Blueprint(__name__)


@routes.route("/organizations/{org}/pushy/job_status_feed", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("push jobs", {}, query=parameters.PushFeedParameters, stream="OrganizationFeed", headers=("Last-Event-ID",))
@problems.handle_errors
def organization_feed(org: str) -> Response:
    """The starts and ends of the organization's push jobs, as a stream."""
    context = access.reader(org)
    request, feeds = context.request, context.components.jobs.push_feeds
    requests.require_acceptable(request, EVENT_STREAM)
    after = requests.query(parameters.PushFeedParameters, request).after
    events = feeds.organization_events(context.server, requests.last_event_id(request), after)
    return stream_response(context, events, responses.SSE)


@routes.route("/organizations/{org}/pushy/job_status_feed/{job}", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc(
    "push jobs", {}, query=parameters.NoParameters, stream="JobFeed", headers=("Last-Event-ID",), problems=(404,)
)
@problems.handle_errors
def job_feed(org: str, job: str) -> Response:
    """The events of a push job, as a stream."""
    context = access.reader(org)
    request, feeds = context.request, context.components.jobs.push_feeds
    requests.require_acceptable(request, EVENT_STREAM)
    requests.query(parameters.NoParameters, request)
    events = feeds.job_events(context.server, job, requests.last_event_id(request))
    return stream_response(context, events, responses.SSE)


@routes.route("/organizations/{org}/pushy/jobs", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("push jobs", {200: "PushJobs"}, query=parameters.PushJobsParameters, problems=(404, 406))
@problems.handle_errors
def push_jobs(org: str) -> Response:
    """The latest push jobs, newest first. The next page starts after the id of the last job."""
    context = access.reader(org)
    requests.require_acceptable(context.request, JSON)
    params = requests.query(parameters.PushJobsParameters, context.request)
    feeds = context.components.jobs.push_feeds
    return responses.json_response(feeds.jobs(context.server, params.limit, params.after))


@routes.route("/organizations/{org}/pushy/jobs/{job}", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("push jobs", {200: "PushJob"}, query=parameters.NoParameters, problems=(404, 406))
@problems.handle_errors
def push_job(org: str, job: str) -> Response:
    """A push job with its nodes."""
    context = access.reader(org)
    requests.require_acceptable(context.request, JSON)
    requests.query(parameters.NoParameters, context.request)
    return responses.json_response(context.components.jobs.push_feeds.job(context.server, job))
