"""Routes of the signed-in user."""

from chalice.app import Blueprint, Response

from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import access, authorizer
from chalicelib.http.openapi.annotations import route_doc
from chalicelib.wiring import get_components

routes = Blueprint(__name__)


@routes.route("/sign-in", methods=["POST"], **authorizer.PUBLIC)
@route_doc("console", {200: "SignedIn"}, body=parameters.SignInRequest, problems=(403,))
@problems.handle_errors
def post_sign_in() -> Response:
    """Exchange the one-time code that the server printed at its start for a token."""
    code = requests.body(parameters.SignInRequest, authorizer.current_request()).code
    return responses.json_response({"token": get_components().auth.sign_in.redeem(code)})


@routes.route("/me", methods=["GET"], **authorizer.AUTHENTICATED)
@route_doc("console", {200: "Me"}, query=parameters.NoParameters, organization=False)
@problems.handle_errors
def get_me() -> Response:
    """The caller's name, organizations, groups and rights."""
    context = access.member()
    requests.query(parameters.NoParameters, context.request)
    return responses.json_response(context.caller.json(context.components.settings.groups))
