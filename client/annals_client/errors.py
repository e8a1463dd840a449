"""What can go wrong.

```
AnnalsError
├── Refused             the server said no, and would say it again: `status`, `detail`
│   ├── BadRequest         400, 406, 413, 415: a rule or a limit is broken
│   ├── NotAllowed         401, 403: no valid token; not your organization or group
│   ├── NotFound           404
│   ├── ConditionFailed    409: an event matches the append condition; `event_id` says which
│   └── KeyReused          422: the idempotency key came with other events before
├── Unavailable         no answer until the deadline; `publish` again with the same key is safe
├── Torn                something after the position asked for is no longer kept: `event_id`
└── Unexpected          an answer that is not Annals', or an error of the server's own
```
"""

from collections.abc import Mapping


class AnnalsError(Exception):
    """All that this package raises by itself."""


class Refused(AnnalsError):
    """The server said no, and would say it again; `detail` tells what is wrong and what is right."""

    def __init__(self, status: int, detail: str, event_id: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.event_id = event_id
        self.tries = 1
        """How often it was asked; if more than once, an earlier request may have been done, its answer lost."""


class BadRequest(Refused):
    """The request breaks a rule or a limit; nothing was written."""


class NotAllowed(Refused):
    """There is no valid token, or it lacks the organization or the group."""


class NotFound(Refused):
    """What the request names does not exist."""


class ConditionFailed(Refused):
    """An event matches the append condition, `event_id` says which; nothing was written."""


class KeyReused(Refused):
    """The idempotency key came with other events before; nothing was written."""


class Unavailable(AnnalsError):
    """There was no answer until the deadline."""

    def __init__(self, detail: str, tries: int) -> None:
        super().__init__(f"{detail} (asked {'once' if tries == 1 else f'{tries} times'})")
        self.detail = detail
        self.tries = tries


class Torn(AnnalsError):
    """Something after the position asked for is no longer kept.

    Begin again with a snapshot, or accept the gap and follow after `event_id`.
    """

    def __init__(self, event_id: int) -> None:
        super().__init__(f"events up to {event_id} are no longer kept: begin with a snapshot, or follow after it")
        self.event_id = event_id


class Unexpected(AnnalsError):
    """An answer that is not Annals', or an error of the server's own."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail


REFUSALS: Mapping[int, type[Refused]] = {
    400: BadRequest,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    406: BadRequest,
    409: ConditionFailed,
    413: BadRequest,
    415: BadRequest,
    422: KeyReused,
}


def error_of(status: int, problem: Mapping[str, object]) -> AnnalsError:
    """The error that an answer with this status tells."""
    detail = str(problem.get("detail") or problem.get("message") or problem.get("title") or "no reason given")
    refusal = REFUSALS.get(status)
    if refusal is None:
        return Unexpected(status, detail)
    event_id = problem.get("eventId")
    return refusal(status, detail, event_id if isinstance(event_id, int) else None)
