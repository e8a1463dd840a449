"""Routes of objects: snapshots of whatever events are about."""

from chalice.app import Blueprint, Response

from chalicelib.api import parameters, problems, requests, responses
from chalicelib.api.callers import Caller
from chalicelib.domain import vocabularies
from chalicelib.domain.objects import ObjectRef
from chalicelib.domain.path_query import PathQuery
from chalicelib.routes import access
from chalicelib.services.snapshot import one, snapshot
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/objects/{collection}", methods=["GET"], **access.MEMBERS)
@routes.route("/objects/{collection}/{path+}", methods=["GET"], **access.MEMBERS)
@problems.answered
def get_objects(collection: str) -> Response:
    """A snapshot of any objects."""
    request, parts = access.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    requests.query(parameters.NoParameters, request)
    query = requests.path_query(request, vocabularies.collection_checked(collection))
    query = vocabularies.canonical(collection, query)
    if collection == "job":
        return _jobs(server, query)
    return object_snapshot(server, collection, query, "elements")


@routes.route("/jobs/{number}", methods=["GET"], **access.MEMBERS)
@problems.answered
def get_job(number: str) -> Response:
    """A job with all that it has to tell."""
    return _named("job", number)


@routes.route("/jobsets/{number}", methods=["GET"], **access.MEMBERS)
@problems.answered
def get_jobset(number: str) -> Response:
    """A set of jobs with all that it has to tell."""
    return _named("jobset", number)


def _named(collection: str, number: str) -> Response:
    request, parts = access.request(), annals()
    caller = Caller.of(request).reader(parts.settings.groups)
    server = parts.organizations.server(caller.organization())
    requests.query(parameters.NoParameters, request)
    return _one(server, ObjectRef(collection, f"/{number}"))


def _jobs(server: int, query: PathQuery) -> Response:
    """Jobs of AnyJob, which have numbers, and of JobScheduler, which have paths."""
    if query.single is not None:
        is_number = query.single[1:].isdecimal()
        return _one(server, ObjectRef("job" if is_number else "schedulerJob", query.single))
    found = snapshot(annals().present, server, ("job", "schedulerJob"), query)
    return responses.objects(found.event_id, found.states.values(), "elements")


def _one(server: int, ref: ObjectRef) -> Response:
    found = one(annals().present, server, ref)
    return responses.one_object(found.event_id, found.one(ref.path))


def object_snapshot(server: int, collection: str, query: PathQuery, name: str) -> Response:
    """One object by itself, or several listed under `name`."""
    if query.single is not None and vocabularies.is_exact(ref := ObjectRef(collection, query.single)):
        return _one(server, ref)
    found = snapshot(annals().present, server, collection, query)
    return responses.objects(found.event_id, found.states.values(), name)
