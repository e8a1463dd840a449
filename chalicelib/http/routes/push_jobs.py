"""Routes of push jobs: their feeds, and the jobs themselves."""

from chalice.app import Blueprint, Response

from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import Caller
from chalicelib.http.openapi.annotations import described
from chalicelib.http.routes.feeds import EVENT_STREAM, JSON, streamed
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/organizations/{org}/pushy/job_status_feed", methods=["GET"], **authorizer.MEMBERS)
@described("push jobs", {}, query=parameters.PushFeedParameters, stream="OrganizationFeed", headers=("Last-Event-ID",))
@problems.answered
def organization_feed(org: str) -> Response:
    """Starts and ends of the organization's push jobs, as they come."""
    request, parts = authorizer.request(), annals()
    server = _server(org)
    requests.require_acceptable(request, EVENT_STREAM)
    after = requests.query(parameters.PushFeedParameters, request).after
    feed = parts.push_feeds.of_organization(server, requests.last_event_id(request), after)
    return streamed(feed, responses.SSE)


@routes.route("/organizations/{org}/pushy/job_status_feed/{job}", methods=["GET"], **authorizer.MEMBERS)
@described(
    "push jobs", {}, query=parameters.NoParameters, stream="JobFeed", headers=("Last-Event-ID",), refusals=(404,)
)
@problems.answered
def job_feed(org: str, job: str) -> Response:
    """The events of a push job, as they come."""
    request, parts = authorizer.request(), annals()
    server = _server(org)
    requests.require_acceptable(request, EVENT_STREAM)
    requests.query(parameters.NoParameters, request)
    return streamed(parts.push_feeds.of_job(server, job, requests.last_event_id(request)), responses.SSE)


@routes.route("/organizations/{org}/pushy/jobs", methods=["GET"], **authorizer.MEMBERS)
@described("push jobs", {200: "PushJobs"}, query=parameters.PushJobsParameters, refusals=(406,))
@problems.answered
def push_jobs(org: str) -> Response:
    """The latest push jobs."""
    request, parts = authorizer.request(), annals()
    server = _server(org)
    requests.require_acceptable(request, JSON)
    wanted = requests.query(parameters.PushJobsParameters, request)
    return responses.plain(parts.push_feeds.jobs(server, wanted.limit))


@routes.route("/organizations/{org}/pushy/jobs/{job}", methods=["GET"], **authorizer.MEMBERS)
@described("push jobs", {200: "PushJob"}, query=parameters.NoParameters, refusals=(404, 406))
@problems.answered
def push_job(org: str, job: str) -> Response:
    """A push job with its nodes."""
    request, parts = authorizer.request(), annals()
    server = _server(org)
    requests.require_acceptable(request, JSON)
    requests.query(parameters.NoParameters, request)
    return responses.plain(parts.push_feeds.job(server, job))


def _server(org: str) -> int:
    """The log with the organization's push jobs, if the caller may read it."""
    parts, caller = annals(), Caller.of(authorizer.request())
    organization = caller.organization(org)
    caller.reader(parts.settings.groups)
    return parts.organizations.server(organization)
