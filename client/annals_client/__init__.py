"""Python client for Annals: `Annals` is synchronous, `AsyncAnnals` is for asyncio. Both have the same methods.

```python
with Annals("http://127.0.0.1:8000", token) as annals:
    annals.publish([NewEvent("deploy/started", key="/web")])
    for event in annals.follow(types=["deploy/*"]):
        print(event.event_id, event.key)
```
"""

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
    Event,
    Expectation,
    Failure,
    Id,
    Item,
    Json,
    Me,
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
    "Event",
    "Expectation",
    "Failure",
    "Id",
    "Item",
    "Json",
    "KeyReused",
    "Me",
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
