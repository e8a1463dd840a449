"""Predicts the cost of operations before they are executed.

Only operations whose result can be much larger than their operands are listed here.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from chalicelib.adapters.templates.limits import MAX_INT_BITS, LimitExceeded, cost

CostFunction = Callable[..., int]

MAX_ROUND_DIGITS = 30
_MAX_DIRECTIVE_WIDTH = 1000
"""Upper bound for the width of a directive that `_DIRECTIVE` accepts, such as %999s."""
_DIRECTIVE: Final = re.compile(r"%(?:%|[-+ #0]{0,5}\d{0,3}(?:\.\d{0,3})?[a-zA-Z])")
_UNLIMITED = 2**60
"""A limit that no value reaches, so that its cost is exact."""


def operation_cost(operator: str, left: Any, right: Any, limit: int) -> int:
    """The cost of `left <operator> right`, or some number above `limit`."""
    match operator, left, right:
        case (("**" | "*"), int(), int()):
            return _integer_cost(operator, left, right)
        case "*", int(), str() | list() | tuple():
            return operation_cost("*", right, left, limit)
        case "*", str(), int():
            return len(left) * max(right, 0)
        case "*", list() | tuple(), int():
            return cost(left, limit) * max(right, 0)
        case "%", str(), _:
            return _format_cost(left, right, limit)
        case _:
            return cost(left, limit) + cost(right, limit)


def _join_cost(values: Iterable[Any], separator: Any = "", *_args: Any, **_kwargs: Any) -> int:
    items = list(values)
    return cost(items, _UNLIMITED) + len(items) * len(str(separator))


def _join_method_cost(separator: str, values: Iterable[Any]) -> int:
    return _join_cost(values, separator)


def _replace_cost(text: Any, old: Any, new: Any, *_args: Any, **_kwargs: Any) -> int:
    return len(str(text)) + str(text).count(str(old)) * len(str(new))


def _indent_cost(text: Any, width: Any = 4, *_args: Any, **_kwargs: Any) -> int:
    return len(str(text)) + (len(str(text).splitlines()) + 1) * (len(width) if isinstance(width, str) else int(width))


def _round_cost(_value: Any, precision: Any = 0, *_args: Any, **_kwargs: Any) -> int:
    if abs(int(precision)) > MAX_ROUND_DIGITS:
        raise LimitExceeded(f"rounds to more than {MAX_ROUND_DIGITS} digits")
    return 0


FILTER_COSTS: Final[dict[str, CostFunction]] = {
    "join": _join_cost,
    "replace": _replace_cost,
    "indent": _indent_cost,
    "round": _round_cost,
}
METHOD_COSTS: Final[dict[str, CostFunction]] = {"join": _join_method_cost, "replace": _replace_cost}
"""Methods of strings."""


def _integer_cost(operator: str, left: int, right: int) -> int:
    bits = left.bit_length() * max(right, 1) if operator == "**" else left.bit_length() + right.bit_length()
    if bits > 2 * MAX_INT_BITS:
        raise LimitExceeded(f"makes a number of more than {MAX_INT_BITS} bits")
    return bits // 8


def _format_cost(text: str, values: Any, limit: int) -> int:
    if "%" in _DIRECTIVE.sub("", text):
        raise LimitExceeded("formats with more than simple directives such as %s, %-20s or %.1f")
    return len(text) + text.count("%") * _MAX_DIRECTIVE_WIDTH + cost(values, limit)
