"""The functions of a stage: new processes for them, where those that run remember what is no longer so."""

from collections.abc import Iterator
from typing import Final

from infra.deploy.stack import clients

FUNCTION: Final = "AWS::Lambda::Function"


def begin_anew(stack: str, why: str) -> int:
    """Have Lambda start new processes for all functions of a stack; how many functions there are.

    It does so whenever anything about a function is changed: here, its description.
    """
    functions = list(_functions(stack))
    for name in functions:
        clients.client("lambda").update_function_configuration(FunctionName=name, Description=why)
    return len(functions)


def _functions(stack: str) -> Iterator[str]:
    for page in clients.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack):
        for one in page["StackResourceSummaries"]:
            if one["ResourceType"] == FUNCTION:
                yield one["PhysicalResourceId"]
