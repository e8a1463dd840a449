"""What an item costs: its size as DynamoDB counts it, and the capacity units to write and to read it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WRITE_UNIT_BYTES = 1024
READ_UNIT_BYTES = 4096

_NESTING_BYTES = 3
"""What every list and map takes, even an empty one."""
_ELEMENT_BYTES = 1
"""What every element of a list or map takes on top of itself."""
_LONGEST_NUMBER_BYTES = 21


def item_size(item: Mapping[str, Mapping[str, Any]]) -> int:
    """The size of an item in bytes: names count as much as values."""
    return sum(_text_size(name) + _value_size(value) for name, value in item.items())


def write_units(item_bytes: int) -> int:
    """What writing an item of this size costs; twice that in a transaction."""
    return max(1, -(-item_bytes // WRITE_UNIT_BYTES))


def read_units(item_bytes: int, consistent: bool) -> float:
    """What reading this much costs: items of one Query are summed before rounding up."""
    units = max(1, -(-item_bytes // READ_UNIT_BYTES))
    return units if consistent else units / 2


def _value_size(attribute: Mapping[str, Any]) -> int:
    ((kind, value),) = attribute.items()
    return _SIZES[kind](value)


def _text_size(text: str) -> int:
    return len(text.encode())


def _binary_size(base64: str) -> int:
    """Of what the text stands for."""
    return len(base64) // 4 * 3 - base64[-2:].count("=")


def _number_size(number: str) -> int:
    """One byte, one for each pair of digits, one for a minus.

    The pairs are those of base 100, so they count from the decimal point, and pairs of zeros at either end
    are free: 1000 is `10 00` and takes 2 bytes, 120 is `01 20` and takes 3.
    """
    sign, digits, exponent = Decimal(number).as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{number} is no number for DynamoDB")
    leading = "".join(map(str, digits)).lstrip("0")
    significant = leading.rstrip("0")
    if not significant:
        return 1
    odd = (exponent + len(leading) - len(significant)) % 2
    return min(_LONGEST_NUMBER_BYTES, 1 + sign + (len(significant) + odd + 1) // 2)


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
