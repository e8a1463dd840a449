"""Sharing out: which function answers which route of the API.

Chalice makes one function for all routes. Here what only reads goes to the reader, which may not write the log and
whose long polls do not take the places of those who write; and what sends a message at once goes to a function with the
role of `deliver`, for nobody else may send mail. All three are the same code.
"""

import copy
from typing import Any, Final

Template = dict[str, Any]

WRITER: Final = "APIHandler"
READER: Final = "Reader"
TESTER: Final = "Tester"

QUERIES: Final = ("/events/latest", "/events/timeseries", "/events/server", "/jobscheduler/")
"""Paths where a POST is a question."""
SENDING: Final = "/observers/{name}/test"
_ROLES: Final = {READER: "ReaderRole", TESTER: "DeliverRole"}


def function_of(path: str, method: str) -> str:
    """The function that answers a route."""
    if method == "get" or (method == "post" and path.startswith(QUERIES)):
        return READER
    return TESTER if path == SENDING else WRITER


def shared_out(template: Template, reader_policy: Template) -> Template:
    """The template of Chalice with all three functions, and the API's routes shared out between them."""
    whole = copy.deepcopy(template)
    resources = whole["Resources"]
    for path, methods in resources["RestAPI"]["Properties"]["DefinitionBody"]["paths"].items():
        for method, operation in methods.items():
            uri = operation["x-amazon-apigateway-integration"]["uri"]
            uri["Fn::Sub"] = uri["Fn::Sub"].replace(f"${{{WRITER}.Arn}}", f"${{{function_of(path, method)}.Arn}}")
    for name, role in _ROLES.items():
        _add_function(resources, name, role)
    role = resources[_ROLES[READER]] = copy.deepcopy(resources["ApiHandlerRole"])
    role["Properties"]["Policies"] = [{"PolicyDocument": reader_policy, "PolicyName": "ReaderRolePolicy"}]
    return whole


def _add_function(resources: Template, name: str, role: str) -> None:
    """One more function with the code of the first, and what `infra/template` says of it; the API may call it."""
    writer, ours = resources[WRITER], resources[name]["Properties"]
    properties = {**writer["Properties"], **ours, "Role": {"Fn::GetAtt": [role, "Arn"]}}
    resources[name] = {**writer, "Properties": properties}
    permission = copy.deepcopy(resources[f"{WRITER}InvokePermission"])
    permission["Properties"]["FunctionName"] = {"Ref": name}
    resources[f"{name}InvokePermission"] = permission
