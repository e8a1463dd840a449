"""Measure the capacity units that calls to DynamoDB consume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient

UNIT_METRICS: Final = {
    "PutItem": "WriteUnits",
    "BatchWriteItem": "WriteUnits",
    "GetItem": "ReadUnits",
    "Query": "ReadUnits",
    "BatchGetItem": "ReadUnits",
}
"""Metric by operation."""


class MeteredClient:
    """A `ServiceClient` for DynamoDB that reports ReadUnits and WriteUnits to `measure`.

    A put whose condition fails consumes units too, but DynamoDB does not report them.
    """

    def __init__(self, client: ServiceClient, measure: Callable[[str, float], None]) -> None:
        self._client = client
        self._measure = measure

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if operation not in UNIT_METRICS:
            return self._client.call(operation, params)
        response = self._client.call(operation, {**params, "ReturnConsumedCapacity": "TOTAL"})
        units = _total_units(response.get("ConsumedCapacity"))
        if units:
            self._measure(UNIT_METRICS[operation], units)
        return response


def _total_units(consumed: Any) -> float:
    """Sum the units. Operations on several tables report a list."""
    match consumed:
        case {"CapacityUnits": units}:
            return float(units)
        case list():
            return sum(map(_total_units, consumed))
        case _:
            return 0.0
