"""Routes of objects: snapshots of the objects that events are about."""

from dataclasses import dataclass, replace

from chalice.app import Blueprint, Response

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput
from chalicelib.domain.objects.cursor import Cursor
from chalicelib.domain.objects.list_cursor import ListCursor
from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.auth.access import LogContext
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.services.jobs.job_types import job_type_query, job_type_snapshot, list_job_types, whole_job_type
from chalicelib.services.objects.listing import ListQuery, list_objects
from chalicelib.services.objects.object_parts import select_parts
from chalicelib.services.objects.snapshot_pages import SnapshotQuery, snapshot_page
from chalicelib.services.objects.snapshots import object_snapshot, past_snapshot

routes = Blueprint(__name__)

MAX_UNPAGED_OBJECTS = 100_000
MAX_UNPAGED_BYTES = 32 * 1024 * 1024
"""Limits of a snapshot without pages. Lambda has a lower one."""

_LIST_FILTERS = {"search", "state", "result", "type", "node", "author", "since", "until", "q"}


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for one page of a snapshot. Without a cursor it is the first one."""

    limit: int
    cursor: str | None


@routes.route("/objects/{collection}", methods=["GET"], **authorizer.AUTHENTICATED)
@routes.route("/objects/{collection}/{path+}", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("objects", {200: "Snapshot"}, query=parameters.ObjectsParameters, problems=(404,))
@problems.handle_errors
def get_objects(collection: str) -> Response:
    """A snapshot of objects: whole objects, a list of summaries, or one object in the past."""
    context = access.reader()
    params = requests.query(parameters.ObjectsParameters, context.request)
    query = requests.path_query(context.request, vocabularies.check_collection(collection))
    query = vocabularies.canonical_query(collection, query)
    _check_combination(params)
    if params.at is not None:
        return _past_response(context, collection, query, params.at)
    if params.brief == "yes":
        return _list_response(context, collection, query, params)
    is_paged = not params.model_fields_set.isdisjoint({"limit", "cursor"})
    page = PageRequest(params.limit, params.cursor) if is_paged else None
    return snapshot_response(context, collection, query, "elements", page)


@routes.route("/jobs/{number}", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("objects", {200: "OneJob"}, query=parameters.PartsParameters, problems=(404,))
@problems.handle_errors
def get_job(number: str) -> Response:
    """A job with all its details. If `next` is present, more of its `logs` follow: continue with `after=<next>`."""
    return _numbered_object("job", number, "logs")


@routes.route("/jobsets/{number}", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("objects", {200: "OneJobSet"}, query=parameters.PartsParameters, problems=(404,))
@problems.handle_errors
def get_jobset(number: str) -> Response:
    """A job set with all its details. If `next` is present, more of its `jobs` follow: continue with `after=<next>`."""
    return _numbered_object("jobset", number, "jobs")


@routes.route("/job-types", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("objects", {200: "JobTypes"}, query=parameters.JobTypesParameters)
@problems.handle_errors
def get_job_types() -> Response:
    """The types of the jobs, ordered by name, with statistics of the last 30 days.

    `cursor` leads to the next page. All pages show the job types as of one `eventId`.
    """
    context = access.reader()
    params = requests.query(parameters.JobTypesParameters, context.request)
    log, server = context.components.log, context.server
    selected = ListFilter(params.state, params.result, search=params.search)
    query = job_type_query(server, selected, params.limit, params.cursor)
    next_starts = context.components.expectations.statuses.next_starts_us
    page = list_job_types(query, log.reader, log.retention.boundary(server), context.components.clock, next_starts)
    return responses.object_page(page.event_id, page.texts, page.next, "jobTypes")


@routes.route("/job-types/{job_type}", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("objects", {200: "OneJobType"}, query=parameters.NoParameters, problems=(404,))
@problems.handle_errors
def get_job_type(job_type: str) -> Response:
    """A type of jobs: its open runs, its last 20 runs, and statistics of the last 30 days.

    Durations are within 5 % of the exact ones, in seconds, of the runs that finished.
    """
    context = access.reader()
    requests.query(parameters.NoParameters, context.request)
    snapshot = job_type_snapshot(context.components.log.reader, context.server, job_type)
    state = snapshot.state_of(f"/{job_type}")
    next_us = context.components.expectations.statuses.next_starts_us(context.server, {job_type})
    return responses.single_object(snapshot.event_id, whole_job_type(state, context.components.clock, next_us))


def _numbered_object(collection: str, number: str, parts: str) -> Response:
    context = access.reader()
    params = requests.query(parameters.PartsParameters, context.request)
    reader, ref = context.components.log.reader, ObjectRef(collection, f"/{number}")
    snapshot = object_snapshot(reader, context.server, ref)
    state = select_parts(snapshot.state_of(ref.path), parts, params.after, params.limit, reader.page_size)
    return responses.single_object(snapshot.event_id, state)


def _check_combination(params: parameters.ObjectsParameters) -> None:
    """Refuse parameters that would have no effect."""
    is_brief = params.brief == "yes"
    if not is_brief and (unused := sorted(params.model_fields_set & _LIST_FILTERS)):
        raise BadInput(f"{unused[0]} requires brief=yes")
    if is_brief and params.at is not None:
        raise BadInput("at and brief=yes exclude each other: at returns one object, brief=yes a list")
    if params.at is not None and (unused := sorted(params.model_fields_set & {"limit", "cursor"})):
        raise BadInput(f"at and {unused[0]} exclude each other: at returns one object")


def _past_response(context: LogContext, collection: str, query: PathQuery, at: int) -> Response:
    ref = _single_object(collection, query)
    if ref is None:
        raise BadInput("at requires the path of one object")
    log, server = context.components.log, context.server
    snapshot = past_snapshot(log.reader, server, ref, at, log.retention.boundary(server))
    return responses.single_object(snapshot.event_id, snapshot.state_of(ref.path))


def _list_response(
    context: LogContext, collection: str, paths: PathQuery, params: parameters.ObjectsParameters
) -> Response:
    log, server = context.components.log, context.server
    list_filter = ListFilter(
        params.state,
        params.result,
        params.type,
        params.node,
        params.author,
        params.search,
        tuple(params.q.split()),
    )
    query = ListQuery(server, collection, paths, list_filter, params.since, params.until, params.limit)
    if params.cursor is not None:
        query = replace(query, cursor=ListCursor.parse(params.cursor, query.scope))
    page = list_objects(query, log.reader, log.retention.boundary(server))
    return responses.object_summaries(page.event_id, page.counts, page.results, page.elements, page.next)


def _single_object(collection: str, query: PathQuery) -> ObjectRef | None:
    """The object that the path names, unless it names several. JobScheduler's jobs are also in the collection `job`."""
    path = query.single_path
    if path is None:
        return None
    if collection == "job" and not path[1:].isdecimal():
        return ObjectRef("schedulerJob", path)
    ref = ObjectRef(collection, path)
    return ref if vocabularies.is_exact(ref) else None


def _object_response(context: LogContext, ref: ObjectRef) -> Response:
    snapshot = object_snapshot(context.components.log.reader, context.server, ref)
    return responses.single_object(snapshot.event_id, snapshot.state_of(ref.path))


def snapshot_response(
    context: LogContext, collection: str, query: PathQuery, name: str, page: PageRequest | None = None
) -> Response:
    """The object that the path names, or several objects listed under `name`, all of them or a page."""
    log, server = context.components.log, context.server
    # Jobs of AnyJob have numbers, those of JobScheduler have paths. Both are in the collection `job` of this API.
    collections = ("job", "schedulerJob") if collection == "job" else (collection,)
    whole = SnapshotQuery(server, collections, query, MAX_UNPAGED_OBJECTS, max_bytes=MAX_UNPAGED_BYTES)
    page_query = whole if page is None else _page_query(server, collections, query, page)
    ref = _single_object(collection, query)
    if ref is not None:
        return _object_response(context, ref)
    result = snapshot_page(page_query, log.reader, log.retention.boundary(server))
    if page is not None:
        return responses.object_page(result.event_id, result.texts, result.next, name)
    if result.next is not None:
        raise BadInput("these are too many objects for one response; request pages with limit=1000")
    return responses.object_list(result.event_id, result.texts, name)


def _page_query(server: int, collections: tuple[str, ...], query: PathQuery, page: PageRequest) -> SnapshotQuery:
    first = SnapshotQuery(server, collections, query, page.limit)
    return first if page.cursor is None else replace(first, cursor=Cursor.parse(page.cursor, first.scope))
