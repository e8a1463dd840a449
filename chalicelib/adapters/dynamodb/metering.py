"""Metering: what the calls of DynamoDB consume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls

UNITS: Final = {
    "PutItem": "WriteUnits",
    "TransactWriteItems": "WriteUnits",
    "BatchWriteItem": "WriteUnits",
    "GetItem": "ReadUnits",
    "Query": "ReadUnits",
    "BatchGetItem": "ReadUnits",
}
"""What each operation that we use consumes."""


class Metered:
    """The port `Calls`, with `measure` told of ReadUnits and WriteUnits.

    A put whose condition fails consumes units, too, but DynamoDB does not say how many.
    """

    def __init__(self, client: Calls, measure: Callable[[str, float], None]) -> None:
        self._client = client
        self._measure = measure

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """What DynamoDB answers, which is also asked what the call consumes."""
        if operation not in UNITS:
            return self._client.call(operation, params)
        answer = self._client.call(operation, {**params, "ReturnConsumedCapacity": "TOTAL"})
        units = _units(answer.get("ConsumedCapacity"))
        if units:
            self._measure(UNITS[operation], units)
        return answer


def _units(consumed: Any) -> float:
    """All that was consumed: some operations tell it for each table."""
    match consumed:
        case {"CapacityUnits": units}:
            return float(units)
        case list():
            return sum(map(_units, consumed))
        case _:
            return 0.0
