"""Python client for Annals: `Annals` is synchronous, `AsyncAnnals` is for asyncio. Both have the same methods.

```python
with Annals("http://127.0.0.1:8000", token) as annals:
    annals.publish([NewEvent("deploy/started", key="/web")])
    for event in annals.follow(types=["deploy/*"]):
        print(event.event_id, event.key)
```
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from annals_client.asynchronous import AsyncAnnals
    from annals_client.errors import (
        AnnalsError,
        BadRequest,
        ConditionFailed,
        KeyReused,
        NotAllowed,
        NotFound,
        Refused,
        Torn,
        Unavailable,
        Unexpected,
    )
    from annals_client.synchronous import Annals
    from annals_client.values import (
        Binary,
        Condition,
        DeliveryEntry,
        Event,
        Expectation,
        Failure,
        Id,
        InboxMessage,
        InboxStatus,
        Item,
        Json,
        Me,
        Mute,
        Newest,
        NewEvent,
        Observer,
        Published,
        Replayed,
        Report,
        Snapshot,
        System,
    )

__all__ = [
    "Annals",
    "AnnalsError",
    "AsyncAnnals",
    "BadRequest",
    "Binary",
    "Condition",
    "ConditionFailed",
    "DeliveryEntry",
    "Event",
    "Expectation",
    "Failure",
    "Id",
    "InboxMessage",
    "InboxStatus",
    "Item",
    "Json",
    "KeyReused",
    "Me",
    "Mute",
    "NewEvent",
    "Newest",
    "NotAllowed",
    "NotFound",
    "Observer",
    "Published",
    "Refused",
    "Replayed",
    "Report",
    "Snapshot",
    "System",
    "Torn",
    "Unavailable",
    "Unexpected",
]

_CLIENTS = {"Annals": "synchronous", "AsyncAnnals": "asynchronous"}
_ERRORS = frozenset(
    (
        "AnnalsError",
        "BadRequest",
        "ConditionFailed",
        "KeyReused",
        "NotAllowed",
        "NotFound",
        "Refused",
        "Torn",
        "Unavailable",
        "Unexpected",
    )
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `annals run` must start its command before httpx is imported."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _CLIENTS.get(name) or ("errors" if name in _ERRORS else "values")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
