"""Assigns the API's routes to Lambda functions.

Chalice makes one function for all routes. This module splits it into three functions with the same code:

- Reader answers queries. Its role cannot write the log, and its long polls do not use up the writer's concurrency.
- Tester sends test messages at once. It has the role of `deliver`, the only role that can send mail.
- APIHandler answers all other routes.
"""

import copy
import re
from typing import Any, Final

Template = dict[str, Any]

WRITER: Final = "APIHandler"
READER: Final = "Reader"
TESTER: Final = "Tester"
AUTHORIZER: Final = "Bearer"

QUERY_PATHS: Final = ("/events/query", "/events/latest", "/events/timeseries", "/events/server", "/jobscheduler/")
"""Prefixes of paths where POST is a query."""
PING_PATH: Final = "/ping/"
"""Prefix of paths where every method writes."""
TEST_MESSAGE_PATH: Final = "/observers/{name}/test"
_ROLES: Final = {READER: "ReaderRole", TESTER: "DeliverRole"}


def function_for_route(path: str, method: str) -> str:
    if path.startswith(PING_PATH):
        return WRITER
    if method == "get" or (method == "post" and path.startswith(QUERY_PATHS)):
        return READER
    return TESTER if path == TEST_MESSAGE_PATH else WRITER


def assign_routes(chalice_template: Template, reader_policy: Template) -> Template:
    """Chalice's template with all three functions, and each route integrated with its function."""
    template = copy.deepcopy(chalice_template)
    resources = template["Resources"]
    for path, methods in resources["RestAPI"]["Properties"]["DefinitionBody"]["paths"].items():
        for method, operation in methods.items():
            uri = operation["x-amazon-apigateway-integration"]["uri"]
            function = function_for_route(path, method)
            uri["Fn::Sub"] = uri["Fn::Sub"].replace(f"${{{WRITER}.Arn}}", f"${{{function}.Arn}}")
        methods["options"] = _preflight_operation(next(iter(methods.values())))
    for name, role in _ROLES.items():
        _add_function(resources, name, role)
    role = resources[_ROLES[READER]] = copy.deepcopy(resources["ApiHandlerRole"])
    role["Properties"]["Policies"] = [{"PolicyDocument": reader_policy, "PolicyName": "ReaderRolePolicy"}]
    return template


def remove_authorizer(template: Template) -> None:
    """Let the API's functions verify tokens: no route has the authorizer, and the functions have its archive.

    Conditions in the template could not do this. SAM deploys the API again only if the text of its definition changes.
    """
    resources = template["Resources"]
    for methods in resources["RestAPI"]["Properties"]["DefinitionBody"]["paths"].values():
        for operation in methods.values():
            operation.pop("security", None)
    for name in (WRITER, *_ROLES):
        resources[name]["Properties"]["CodeUri"] = resources[AUTHORIZER]["Properties"]["CodeUri"]


def _preflight_operation(operation: Template) -> Template:
    """The public operation that answers browsers of other origins. The app decides whether they are allowed."""
    preflight = copy.deepcopy(operation)
    preflight.pop("security", None)
    uri = preflight["x-amazon-apigateway-integration"]["uri"]
    uri["Fn::Sub"] = re.sub(r"\$\{\w+\.Arn\}", f"${{{READER}.Arn}}", uri["Fn::Sub"])
    preflight["summary"] = "Cross-origin preflight."
    return preflight


def _add_function(resources: Template, name: str, role: str) -> None:
    """Add a function with the writer's code and the properties from `infra/template`. The API may invoke it."""
    writer, own_properties = resources[WRITER], resources[name]["Properties"]
    # The concurrency that is reserved for the writer is not reserved once more for each copy.
    shared = {key: value for key, value in writer["Properties"].items() if key != "ReservedConcurrentExecutions"}
    properties = {**shared, **own_properties, "Role": {"Fn::GetAtt": [role, "Arn"]}}
    resources[name] = {**writer, "Properties": properties}
    permission = copy.deepcopy(resources[f"{WRITER}InvokePermission"])
    permission["Properties"]["FunctionName"] = {"Ref": name}
    resources[f"{name}InvokePermission"] = permission
