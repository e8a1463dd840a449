"""Extracts fields of JSON payloads to Arrow. Missing fields and fields of another type are null."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.exports.reader import parse_json_lines

MAX_SINGLE_PARSES: Final = 64
"""Batches of at most this size are parsed one by one if a field has another type."""
MAX_DIGITS: Final = 20
"""Maximum number of digits. Python parses longer numbers slowly or not at all."""


def payload_fields(payloads: pa.Array, kinds: pa.StructType) -> pa.StructArray:
    """The requested fields of each payload's `data`."""
    if not len(payloads):
        return pa.array([], kinds)
    try:
        return _parse_all(payloads, kinds)
    except pa.ArrowInvalid:
        if len(payloads) <= MAX_SINGLE_PARSES:
            return pa.concat_arrays([_parse_one(payload, kinds) for payload in payloads])
    half = len(payloads) // 2
    return pa.concat_arrays([payload_fields(payloads[:half], kinds), payload_fields(payloads[half:], kinds)])


def _parse_all(payloads: pa.Array, kinds: pa.StructType) -> pa.StructArray:
    """Parse all payloads. Raises `ArrowInvalid` if any field has another type."""
    lines = pc.binary_join_element_wise(pc.fill_null(payloads, "{}"), "", "\n")
    text = b"".join([lines.buffers()[2]]) if lines.offset == 0 else "".join(lines.to_pylist()).encode()
    table = parse_json_lines(text, pa.schema([("data", kinds)]), "ignore")
    if table.num_rows != len(payloads):
        raise pa.ArrowInvalid("a payload has several lines")
    return table["data"].combine_chunks()


def _parse_one(payload: pa.Scalar, kinds: pa.StructType) -> pa.StructArray:
    """Parse one payload. Fields of another type are null."""
    try:
        parsed = json.loads(payload.as_py() or "{}", parse_int=_number)
    except (ValueError, RecursionError):  # nested too deeply for Python
        return _parse_one_with_arrow(payload, kinds)
    is_json = isinstance(parsed, dict) and parsed.get("type") == "json"
    return pa.array([_convert(parsed.get("data"), kinds) if is_json else None], kinds)


def _parse_one_with_arrow(payload: pa.Scalar, kinds: pa.StructType) -> pa.StructArray:
    try:
        return _parse_all(pa.array([payload.as_py()]), kinds)
    except pa.ArrowInvalid:
        return pa.nulls(1, kinds)


def _number(digits: str) -> int | None:
    return int(digits) if len(digits) <= MAX_DIGITS else None


def _convert(value: Any, kind: pa.DataType) -> Any:
    """The value, with members of another type replaced by None. None if the value itself has another type."""
    if pa.types.is_struct(kind):
        if not isinstance(value, Mapping):
            return None
        return {field.name: _convert(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_convert(item, kind.value_type) for item in value] if isinstance(value, list) else None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and abs(value) < 2**63 else None
