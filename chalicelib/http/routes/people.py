"""Routes of people: signing in, and who one is."""

from chalice.app import Blueprint, Response

from chalicelib.http import parameters, problems, requests, responses
from chalicelib.http.auth import authorizer
from chalicelib.http.auth.caller import Caller
from chalicelib.http.openapi.annotations import described
from chalicelib.wiring import annals

routes = Blueprint(__name__)


@routes.route("/sign-in", methods=["POST"], **authorizer.ANYBODY)
@described("console", {200: "SignedIn"}, body=parameters.SignInRequest, refusals=(403,))
@problems.answered
def post_sign_in() -> Response:
    """Exchange the code that the server printed at its start for a token; it works once."""
    wanted = requests.body(parameters.SignInRequest, authorizer.request())
    return responses.plain({"token": annals().signing_in.take(wanted.code)})


@routes.route("/me", methods=["GET"], **authorizer.MEMBERS)
@described("console", {200: "Me"}, query=parameters.NoParameters, organization=False)
@problems.answered
def get_me() -> Response:
    """Who the caller is, and what they may do."""
    request = authorizer.request()
    requests.query(parameters.NoParameters, request)
    return responses.plain(Caller.of(request).json(annals().settings.groups))
