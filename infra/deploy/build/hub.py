"""Gives the hub's container the environment of the functions, which `infra/template/functions.yaml` defines once."""

from collections.abc import Iterator
from typing import Any, Final

TASK: Final = "HubTask"
NO_VALUE: Final = {"Ref": "AWS::NoValue"}


def add_environment(template: dict[str, Any]) -> None:
    """Add the variables of all functions to the container, except those that it defines itself."""
    (container,) = template["Resources"][TASK]["Properties"]["ContainerDefinitions"]
    own = {variable["Name"] for variable in container["Environment"]}
    variables = template["Globals"]["Function"]["Environment"]["Variables"]
    container["Environment"] += _as_list({name: value for name, value in variables.items() if name not in own})


def _as_list(variables: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """ECS expects a list where Lambda expects a map. An entry of the list may not lack its value."""
    for name, value in variables.items():
        match value:
            case {"Fn::If": [condition, chosen, no_value]} if no_value == NO_VALUE:
                yield {"Fn::If": [condition, {"Name": name, "Value": chosen}, NO_VALUE]}
            case _:
                yield {"Name": name, "Value": value}
