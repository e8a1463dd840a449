"""Fields of JSON payloads, in Arrow arrays: what is not there, or of another kind than it should be, is null."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.exports import json_lines

ONE_BY_ONE: Final = 64
"""Where something is of another kind, so few payloads around it are looked at one by one."""
LONGEST_NUMBER: Final = 20
"""Digits of the longest number that is asked for; Python reads longer ones slowly, or not at all."""


def fields(payloads: pa.Array, kinds: pa.StructType) -> pa.StructArray:
    """The fields of the `data` of each payload."""
    if not len(payloads):
        return pa.array([], kinds)
    try:
        return _parsed(payloads, kinds)
    except pa.ArrowInvalid:
        if len(payloads) <= ONE_BY_ONE:
            return pa.concat_arrays([_alone(payload, kinds) for payload in payloads])
    half = len(payloads) // 2
    return pa.concat_arrays([fields(payloads[:half], kinds), fields(payloads[half:], kinds)])


def _parsed(payloads: pa.Array, kinds: pa.StructType) -> pa.StructArray:
    """The fields, if all of them are of their kinds."""
    lines = pc.binary_join_element_wise(pc.fill_null(payloads, "{}"), "", "\n")
    text = b"".join([lines.buffers()[2]]) if lines.offset == 0 else "".join(lines.to_pylist()).encode()
    table = json_lines.parsed(text, pa.schema([("data", kinds)]), "ignore")
    if table.num_rows != len(payloads):
        raise pa.ArrowInvalid("a payload is not one line")
    return table["data"].combine_chunks()


def _alone(payload: pa.Scalar, kinds: pa.StructType) -> pa.StructArray:
    """The fields of one payload, as far as they are of their kinds."""
    try:
        parsed = json.loads(payload.as_py() or "{}", parse_int=_number)
    except (ValueError, RecursionError):  # it goes too deep for Python
        return _parsed_or_nothing(payload, kinds)
    is_json = isinstance(parsed, dict) and parsed.get("type") == "json"
    return pa.array([_of_kind(parsed.get("data"), kinds) if is_json else None], kinds)


def _parsed_or_nothing(payload: pa.Scalar, kinds: pa.StructType) -> pa.StructArray:
    try:
        return _parsed(pa.array([payload.as_py()]), kinds)
    except pa.ArrowInvalid:
        return pa.nulls(1, kinds)


def _number(digits: str) -> int | None:
    return int(digits) if len(digits) <= LONGEST_NUMBER else None


def _of_kind(value: Any, kind: pa.DataType) -> Any:
    """The value if it is of its kind, with those of its members that are."""
    if pa.types.is_struct(kind):
        if not isinstance(value, Mapping):
            return None
        return {field.name: _of_kind(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_of_kind(one, kind.value_type) for one in value] if isinstance(value, list) else None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and abs(value) < 2**63 else None
