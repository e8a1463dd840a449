"""Routes of expectations: when jobs should run, and whether they do."""

from typing import Annotated, Any

from chalice.app import Blueprint, Response
from pydantic import Field
from pydantic_core import to_json

from chalicelib.domain import timestamps
from chalicelib.domain.expectations.expectation import Expectation, check_name
from chalicelib.domain.model import Model, WholeNumber
from chalicelib.http import problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.services.expectations.status import ExpectationStatus

routes = Blueprint(__name__)

MAX_PAGE = 100
"""Limit of the expectations in a response. The status of each is computed from the log."""


class ExpectationsParameters(Model):
    """The query of the expectations, which are ordered by name. The next page starts after the last name."""

    after: Annotated[str, Field(max_length=200)] = ""
    limit: Annotated[WholeNumber, Field(ge=1, le=MAX_PAGE)] = MAX_PAGE


@routes.route("/expectations", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("expectations", {200: "Expectations"}, query=ExpectationsParameters)
@problems.handle_errors
def get_expectations() -> Response:
    """The expectations with their status."""
    context = access.reader()
    params = requests.query(ExpectationsParameters, context.request)
    services, page_size = context.components.expectations, context.components.log.reader.page_size
    names = sorted(name for name in services.registry.load(context.server) if name > params.after)
    page, size_bytes = list[dict[str, Any]](), 0
    for name in names[: params.limit]:
        if size_bytes > page_size.max_bytes:
            break
        page.append(_expectation_json(services.statuses.status(context.server, name)))
        size_bytes += page_size.measure([to_json(page[-1]).decode()])
    return responses.json_response({"expectations": page, "moreFollows": len(page) < len(names)})


@routes.route("/expectations/{name}", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("expectations", {200: "ExpectationStatus"}, problems=(404,))
@problems.handle_errors
def get_expectation(name: str) -> Response:
    """An expectation with its status."""
    context = access.reader()
    status = context.components.expectations.statuses.status(context.server, name)
    return responses.json_response(_expectation_json(status))


@routes.route("/expectations/{name}", methods=["PUT"], **authorizer.AUTHENTICATED)
@route_doc("expectations", {200: "ExpectationStatus", 201: "ExpectationStatus"}, body=Expectation)
@problems.handle_errors
def put_expectation(name: str) -> Response:
    """Configure an expectation. The configuration holds from now on."""
    context = access.organization_admin()
    expectation = requests.body(Expectation, context.request)
    services = context.components.expectations
    _, is_new = services.registry.put(context.server, check_name(name), expectation)
    status = services.statuses.status(context.server, name)
    return responses.json_response(_expectation_json(status), 201 if is_new else 200)


@routes.route("/expectations/{name}", methods=["DELETE"], **authorizer.AUTHENTICATED)
@route_doc("expectations", {200: "Deleted"}, problems=(404,))
@problems.handle_errors
def delete_expectation(name: str) -> Response:
    """Delete an expectation. No alarm follows, not even `job/recovered`."""
    context = access.organization_admin()
    context.components.expectations.registry.delete(context.server, name)
    return responses.json_response({"deleted": name})


def _expectation_json(status: ExpectationStatus) -> dict[str, Any]:
    open_alarms = [
        {"kind": kind, "count": alarms.count, "since": _iso(alarms.first_us), "last": _iso(alarms.last_us)}
        for kind, alarms in sorted(status.open_alarms.items())
    ]
    return {
        **status.configured.json,
        "state": status.state,
        "stateSince": _iso(status.since_us),
        "nextExpectedAt": _iso(status.next_expected_us),
        "lastStartAt": _iso(status.last_start_us),
        "openAlarms": open_alarms,
    }


def _iso(time_us: int | None) -> str | None:
    return None if time_us is None else timestamps.iso(time_us)
