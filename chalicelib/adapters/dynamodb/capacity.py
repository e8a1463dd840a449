"""Size of an item as DynamoDB computes it, and the capacity units to write and read it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WRITE_UNIT_BYTES = 1024
READ_UNIT_BYTES = 4096
MAX_ITEM_BYTES = 400 * 1024

_NESTING_BYTES = 3
"""Size of an empty list or map."""
_ELEMENT_BYTES = 1
"""Overhead of each element of a list or map."""
_MAX_NUMBER_BYTES = 21


def item_size(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Size in bytes of the names and values of an item."""
    return sum(_text_size(name) + _value_size(value) for name, value in item.items())


def write_units(item_bytes: int) -> int:
    """Units to write an item of this size. A transaction costs twice as much."""
    return max(1, -(-item_bytes // WRITE_UNIT_BYTES))


def read_units(item_bytes: int, consistent: bool) -> float:
    """Units to read this many bytes. DynamoDB adds up the items of a Query before it rounds up."""
    units = max(1, -(-item_bytes // READ_UNIT_BYTES))
    return units if consistent else units / 2


def _value_size(attribute: Mapping[str, Any]) -> int:
    ((kind, value),) = attribute.items()
    return _SIZES[kind](value)


def _text_size(text: str) -> int:
    return len(text.encode())


def _binary_size(base64: str) -> int:
    """Size of the decoded value."""
    return len(base64) // 4 * 3 - base64[-2:].count("=")


def _number_size(number: str) -> int:
    """One byte, plus one for each pair of digits and one for a minus sign.

    The pairs are base-100 digits, aligned to the decimal point. Pairs of zeros at either end are free: 1000 is `10 00`
    and takes 2 bytes, 120 is `01 20` and takes 3.
    """
    sign, digits, exponent = Decimal(number).as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{number} is not a valid DynamoDB number")
    leading = "".join(map(str, digits)).lstrip("0")
    significant = leading.rstrip("0")
    if not significant:
        return 1
    odd = (exponent + len(leading) - len(significant)) % 2
    return min(_MAX_NUMBER_BYTES, 1 + sign + (len(significant) + odd + 1) // 2)


_SIZES: dict[str, Callable[[Any], int]] = {
    "S": _text_size,
    "N": _number_size,
    "B": _binary_size,
    "BOOL": lambda _: 1,
    "NULL": lambda _: 1,
    "SS": lambda texts: sum(map(_text_size, texts)),
    "NS": lambda numbers: sum(map(_number_size, numbers)),
    "BS": lambda blobs: sum(map(_binary_size, blobs)),
    "L": lambda values: _NESTING_BYTES + _ELEMENT_BYTES * len(values) + sum(map(_value_size, values)),
    "M": lambda members: _NESTING_BYTES + _ELEMENT_BYTES * len(members) + item_size(members),
}
