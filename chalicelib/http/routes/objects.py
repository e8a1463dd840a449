"""Routes of objects: snapshots of whatever events are about."""

from chalice.app import Blueprint, Response

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import Caller
from chalicelib.http.openapi.annotations import described
from chalicelib.services.objects.listing import ListQuery, listed
from chalicelib.services.objects.snapshots import one, past, snapshot
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/objects/{collection}", methods=["GET"], **authorizer.MEMBERS)
@routes.route("/objects/{collection}/{path+}", methods=["GET"], **authorizer.MEMBERS)
@described("objects", {200: "Snapshot"}, query=parameters.ObjectsParameters, refusals=(404,))
@problems.answered
def get_objects(collection: str) -> Response:
    """A snapshot of any objects: whole, in brief, or one as it was."""
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    wanted = requests.query(parameters.ObjectsParameters, request)
    query = requests.path_query(request, vocabularies.collection_checked(collection))
    query = vocabularies.canonical(collection, query)
    _refuse_nonsense(wanted)
    if wanted.at is not None:
        return _past(server, collection, query, wanted.at)
    if wanted.brief == "yes":
        return _listed(server, ListQuery(collection, query, wanted.search, wanted.state, wanted.limit))
    if collection == "job":
        return _jobs(server, query)
    return object_snapshot(server, collection, query, "elements")


@routes.route("/jobs/{number}", methods=["GET"], **authorizer.MEMBERS)
@described("objects", {200: "OneJob"}, query=parameters.NoParameters, refusals=(404,))
@problems.answered
def get_job(number: str) -> Response:
    """A job with all that it has to tell."""
    return _named("job", number)


@routes.route("/jobsets/{number}", methods=["GET"], **authorizer.MEMBERS)
@described("objects", {200: "OneJobSet"}, query=parameters.NoParameters, refusals=(404,))
@problems.answered
def get_jobset(number: str) -> Response:
    """A set of jobs with all that it has to tell."""
    return _named("jobset", number)


def _named(collection: str, number: str) -> Response:
    request, parts = authorizer.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    requests.query(parameters.NoParameters, request)
    return _one(server, ObjectRef(collection, f"/{number}"))


def _refuse_nonsense(wanted: parameters.ObjectsParameters) -> None:
    """Refuse what would have no effect."""
    given, is_brief = wanted.model_fields_set, wanted.brief == "yes"
    if not is_brief and (useless := sorted(given & {"limit", "search", "state"})):
        raise BadInput(f"{useless[0]} is for lists: ask with brief=yes")
    if is_brief and wanted.at is not None:
        raise BadInput("at is for one object, brief for lists: give one of them")


def _past(server: int, collection: str, query: PathQuery, at: int) -> Response:
    ref = _single(collection, query)
    if ref is None:
        raise BadInput("at is for one object: name it in the path")
    found = past(annals().present, server, ref, at, annals().retention.forgotten(server))
    return responses.one_object(found.event_id, found.one(ref.path))


def _listed(server: int, query: ListQuery) -> Response:
    found = listed(annals().present, server, query)
    return responses.briefs(found.event_id, found.counts, found.elements, found.more_follows)


def _single(collection: str, query: PathQuery) -> ObjectRef | None:
    """The one object that the path names, if it names one; a job of JobScheduler is found among the jobs, too."""
    path = query.single
    if path is None:
        return None
    if collection == "job" and not path[1:].isdecimal():
        return ObjectRef("schedulerJob", path)
    ref = ObjectRef(collection, path)
    return ref if vocabularies.is_exact(ref) else None


def _jobs(server: int, query: PathQuery) -> Response:
    """Jobs of AnyJob, which have numbers, and of JobScheduler, which have paths."""
    ref = _single("job", query)
    if ref is not None:
        return _one(server, ref)
    found = snapshot(annals().present, server, ("job", "schedulerJob"), query)
    return responses.objects(found.event_id, found.states.values(), "elements")


def _one(server: int, ref: ObjectRef) -> Response:
    found = one(annals().present, server, ref)
    return responses.one_object(found.event_id, found.one(ref.path))


def object_snapshot(server: int, collection: str, query: PathQuery, name: str) -> Response:
    """One object by itself, or several listed under `name`."""
    ref = _single(collection, query)
    if ref is not None:
        return _one(server, ref)
    found = snapshot(annals().present, server, collection, query)
    return responses.objects(found.event_id, found.states.values(), name)
