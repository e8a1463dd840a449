"""Metering: what the calls of a client consume, and how often the SDK had to repeat them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

UNITS: Final = {
    "PutItem": "WriteUnits",
    "TransactWriteItems": "WriteUnits",
    "BatchWriteItem": "WriteUnits",
    "GetItem": "ReadUnits",
    "Query": "ReadUnits",
    "BatchGetItem": "ReadUnits",
}
"""What each operation that we use consumes."""


def metered(client: DynamoDBClient, measure: Callable[[str, float], None]) -> None:
    """Have `measure` told of the client's ReadUnits, WriteUnits and Retries.

    A put whose condition fails consumes units, too, but DynamoDB does not say how many.
    """

    def answered(parsed: Mapping[str, Any], model: Any, context: Mapping[str, Any], **_: object) -> None:
        units = _units(parsed.get("ConsumedCapacity"))
        if units:
            measure(UNITS[model.name], units)
        _count_retries(context)

    def failed(context: Mapping[str, Any], **_: object) -> None:
        _count_retries(context)

    def _count_retries(context: Mapping[str, Any]) -> None:
        retries = context.get("retries", {}).get("attempt", 1) - 1
        if retries > 0:
            measure("Retries", retries)

    events: Any = client.meta.events
    for operation in UNITS:
        events.register(f"provide-client-params.dynamodb.{operation}", _asking)
    events.register("after-call.dynamodb", answered)
    events.register("after-call-error.dynamodb", failed)


def _asking(params: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """The parameters of a call that also asks what it consumes."""
    return {**params, "ReturnConsumedCapacity": "TOTAL"}


def _units(consumed: Any) -> float:
    """All that was consumed: some operations tell it for each table."""
    match consumed:
        case {"CapacityUnits": units}:
            return float(units)
        case list():
            return sum(map(_units, consumed))
        case _:
            return 0.0
