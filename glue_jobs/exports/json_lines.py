"""JSON, a value a line, into Arrow."""

from typing import Literal

import pyarrow as pa
import pyarrow.json


def parsed(text: bytes, schema: pa.Schema, others: Literal["error", "ignore"]) -> pa.Table:
    """The values of all lines, parsed at once; raises `ArrowInvalid` for what is no JSON or not of its kind."""
    return pyarrow.json.read_json(
        pa.BufferReader(text),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )
