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
    return object_snapshot(server, collection, query, "elements")


def object_snapshot(server: int, collection: str, query: PathQuery, name: str) -> Response:
    """One object by itself, or several listed under `name`."""
    present = annals().present
    if query.single is not None and vocabularies.is_exact(ref := ObjectRef(collection, query.single)):
        found = one(present, server, ref)
        return responses.one_object(found.event_id, found.one(ref.path))
    found = snapshot(present, server, collection, query)
    return responses.objects(found.event_id, found.states.values(), name)
