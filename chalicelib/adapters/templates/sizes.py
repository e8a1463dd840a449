"""How large the outcome of an operation is going to be, told before it is done.

Only what can make much of little is here: all else is about as large as what it is made of.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from chalicelib.adapters.templates.limits import MOST_BITS, TooMuch, weight

Size = Callable[..., int]

MOST_DIGITS = 30
"""How many digits a number is rounded to at most."""
_WIDEST = 1000
"""More than a directive such as %999s can be wide."""
_DIRECTIVE: Final = re.compile(r"%(?:%|[-+ #0]{0,5}\d{0,3}(?:\.\d{0,3})?[a-zA-Z])")


def of_operation(operator: str, left: Any, right: Any, most: int) -> int:
    """The weight of `left <operator> right`, or something above `most`."""
    match operator, left, right:
        case (("**" | "*"), int(), int()):
            return _of_numbers(operator, left, right)
        case "*", int(), str() | list() | tuple():
            return of_operation("*", right, left, most)
        case "*", str(), int():
            return len(left) * max(right, 0)
        case "*", list() | tuple(), int():
            return weight(left, most) * max(right, 0)
        case "%", str(), _:
            return _of_format(left, right, most)
        case _:
            return weight(left, most) + weight(right, most)


def of_join(values: Iterable[Any], between: Any = "", *_rest: Any, **_named: Any) -> int:
    """All values with something between them; their number is known to be small enough."""
    items = list(values)
    return weight(items, _SURELY) + len(items) * len(str(between))


def of_replace(text: Any, old: Any, new: Any, *_rest: Any, **_named: Any) -> int:
    """The text, and the new as often as the old is found."""
    return len(str(text)) + str(text).count(str(old)) * len(str(new))


def of_indent(text: Any, width: Any = 4, *_rest: Any, **_named: Any) -> int:
    """The text, and the indent in every line."""
    return len(str(text)) + (len(str(text).splitlines()) + 1) * (len(width) if isinstance(width, str) else int(width))


def of_round(_value: Any, precision: Any = 0, *_rest: Any, **_named: Any) -> int:
    """Nothing worth mention, if few digits are asked for."""
    if abs(int(precision)) > MOST_DIGITS:
        raise TooMuch(f"rounds to more than {MOST_DIGITS} digits")
    return 0


def of_joined_by(between: str, values: Iterable[Any]) -> int:
    """As `of_join`, for the method of texts."""
    return of_join(values, between)


FILTERS: Final[dict[str, Size]] = {"join": of_join, "replace": of_replace, "indent": of_indent, "round": of_round}
METHODS: Final[dict[str, Size]] = {"join": of_joined_by, "replace": of_replace}

_SURELY = 2**60
"""Above any limit, so that a weight is exact."""


def _of_numbers(operator: str, left: int, right: int) -> int:
    bits = left.bit_length() * max(right, 1) if operator == "**" else left.bit_length() + right.bit_length()
    if bits > 2 * MOST_BITS:
        raise TooMuch(f"makes a number of more than {MOST_BITS} bits")
    return bits // 8


def _of_format(text: str, values: Any, most: int) -> int:
    if "%" in _DIRECTIVE.sub("", text):
        raise TooMuch("formats with more than simple directives such as %s, %-20s or %.1f")
    return len(text) + text.count("%") * _WIDEST + weight(values, most)
