"""Fields of payloads: the same whichever payloads stand beside them."""

import pyarrow as pa
import pytest

from glue_jobs.transforms.payloads import fields

KINDS = pa.struct([("success", pa.string()), ("jobset", pa.int64()), ("log", pa.struct([("message", pa.string())]))])
NOTHING = {"success": None, "jobset": None, "log": None}
GOOD = '{"type":"json","data":{"success":"1","jobset":3}}'
ODD = '{"type":"binary","name":"a","data":"AAAA"}'
DEEP = "[" * 5_000 + "]" * 5_000

CASES = {
    "all of them": (GOOD, {**NOTHING, "success": "1", "jobset": 3}),
    "none of them": ('{"type":"json","data":{}}', NOTHING),
    "no payload": (None, None),
    "null": ('{"type":"json","data":null}', None),
    "bytes": (ODD, None),
    "text": ('{"type":"json","data":"success"}', None),
    "a list": ('{"type":"json","data":[{"success":"1"}]}', None),
    "a number for a text": ('{"type":"json","data":{"success":1,"jobset":3}}', {**NOTHING, "jobset": 3}),
    "a text for a number": ('{"type":"json","data":{"success":"1","jobset":"3"}}', {**NOTHING, "success": "1"}),
    "true for a number": ('{"type":"json","data":{"jobset":true}}', NOTHING),
    "a fraction": ('{"type":"json","data":{"jobset":3.5}}', NOTHING),
    "too large a number": ('{"type":"json","data":{"jobset":' + "9" * 30 + "}}", NOTHING),
    "an object": ('{"type":"json","data":{"log":{"level":0}}}', {**NOTHING, "log": {"message": None}}),
    "a text for an object": ('{"type":"json","data":{"log":"said"}}', NOTHING),
    "something deep beside": ('{"type":"json","data":{"success":"1","x":' + DEEP + "}}", {**NOTHING, "success": "1"}),
    "many digits beside": ('{"type":"json","data":{"jobset":3,"x":' + "7" * 5_000 + "}}", {**NOTHING, "jobset": 3}),
}


@pytest.mark.parametrize("beside", [[], [GOOD], [ODD], [GOOD] * 100 + [ODD]], ids=["alone", "good", "odd", "many"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_of_its_kind_is_found_and_all_else_is_null(name: str, beside: list[str]) -> None:
    payload, expected = CASES[name]
    found = fields(pa.array([*beside, payload, *beside], pa.string()), KINDS)
    assert found[len(beside)].as_py() == expected
    assert len(found) == 2 * len(beside) + 1
