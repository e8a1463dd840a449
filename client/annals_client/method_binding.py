"""What both clients tell of their methods: those of the calls behind them."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

M = TypeVar("M", bound=Callable[..., Any])


def dressed(method: M, call: Callable[..., Any]) -> M:
    """The method with the name, the words and the parameters of the call, but for what the client gives it."""
    signature = inspect.signature(call)
    given = list(signature.parameters.values())[1:]
    method.__name__ = call.__name__
    method.__doc__ = call.__doc__
    method.__signature__ = signature.replace(parameters=given, return_annotation=signature.empty)  # type: ignore[attr-defined]
    return method
