"""Signatures and docstrings for the methods of both clients, taken from the functions in `calls`."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

M = TypeVar("M", bound=Callable[..., Any])


def copy_signature(method: M, call: Callable[..., Any]) -> M:
    """Copy name, docstring and parameters of `call` to `method`, without the first parameter, the retry policy."""
    signature = inspect.signature(call)
    parameters = list(signature.parameters.values())[1:]
    method.__name__ = call.__name__
    method.__doc__ = call.__doc__
    method.__signature__ = signature.replace(parameters=parameters, return_annotation=signature.empty)  # type: ignore[attr-defined]
    return method
