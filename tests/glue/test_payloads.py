"""Fields of payloads do not depend on the other payloads of a batch."""

import pyarrow as pa
import pytest

from glue_jobs.transforms.payloads import payload_fields

KINDS = pa.struct([("success", pa.string()), ("jobset", pa.int64()), ("log", pa.struct([("message", pa.string())]))])
NO_FIELDS = {"success": None, "jobset": None, "log": None}
GOOD = '{"type":"json","data":{"success":"1","jobset":3}}'
ODD = '{"type":"binary","name":"a","data":"AAAA"}'
DEEP = "[" * 5_000 + "]" * 5_000

CASES = {
    "all fields": (GOOD, {**NO_FIELDS, "success": "1", "jobset": 3}),
    "no fields": ('{"type":"json","data":{}}', NO_FIELDS),
    "no payload": (None, None),
    "null": ('{"type":"json","data":null}', None),
    "bytes": (ODD, None),
    "text": ('{"type":"json","data":"success"}', None),
    "a list": ('{"type":"json","data":[{"success":"1"}]}', None),
    "a number for a text": ('{"type":"json","data":{"success":1,"jobset":3}}', {**NO_FIELDS, "jobset": 3}),
    "a text for a number": ('{"type":"json","data":{"success":"1","jobset":"3"}}', {**NO_FIELDS, "success": "1"}),
    "true for a number": ('{"type":"json","data":{"jobset":true}}', NO_FIELDS),
    "a fraction": ('{"type":"json","data":{"jobset":3.5}}', NO_FIELDS),
    "too large a number": ('{"type":"json","data":{"jobset":' + "9" * 30 + "}}", NO_FIELDS),
    "an object": ('{"type":"json","data":{"log":{"level":0}}}', {**NO_FIELDS, "log": {"message": None}}),
    "a text for an object": ('{"type":"json","data":{"log":"text"}}', NO_FIELDS),
    "deep nesting beside": ('{"type":"json","data":{"success":"1","x":' + DEEP + "}}", {**NO_FIELDS, "success": "1"}),
    "many digits beside": ('{"type":"json","data":{"jobset":3,"x":' + "7" * 5_000 + "}}", {**NO_FIELDS, "jobset": 3}),
}


@pytest.mark.parametrize("beside", [[], [GOOD], [ODD], [GOOD] * 100 + [ODD]], ids=["alone", "good", "odd", "many"])
@pytest.mark.parametrize("name", CASES)
def test_payload_fields_other_types_are_null(name: str, beside: list[str]) -> None:
    payload, expected = CASES[name]
    fields = payload_fields(pa.array([*beside, payload, *beside], pa.string()), KINDS)
    assert fields[len(beside)].as_py() == expected
    assert len(fields) == 2 * len(beside) + 1
