"""The exceptions of the client.

```
AnnalsError
├── Refused             the server rejected the request, and a retry would not help: `status`, `detail`
│   ├── BadRequest         400, 406, 413, 415: the request is invalid or exceeds a limit
│   ├── NotAllowed         401, 403: no valid token, or not permitted for the organization or group
│   ├── NotFound           404
│   ├── ConditionFailed    409: the event `event_id` matches the append condition
│   └── KeyReused          422: the idempotency key was used with other events
├── Unavailable         no response before the deadline; publishing again with the same key is safe
├── Torn                events after the requested position were removed by retention: `event_id`
└── Unexpected          not a response of Annals, or an internal server error
```
"""

from collections.abc import Mapping


class AnnalsError(Exception):
    """Base class of the exceptions of this package."""


class Refused(AnnalsError):
    """The server rejected the request, and a retry would not help. `detail` explains why."""

    def __init__(self, status: int, detail: str, event_id: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.event_id = event_id
        self.tries = 1
        """Number of attempts. If greater than 1, an earlier attempt may have succeeded without a response."""


class BadRequest(Refused):
    """The request is invalid or exceeds a limit. Nothing was written."""


class NotAllowed(Refused):
    """The token is missing, invalid, or lacks the organization or group."""


class NotFound(Refused):
    """The requested resource does not exist."""


class ConditionFailed(Refused):
    """The event `event_id` matches the append condition. Nothing was written."""


class KeyReused(Refused):
    """The idempotency key was used with other events before. Nothing was written."""


class Unavailable(AnnalsError):
    """There was no response before the deadline."""

    def __init__(self, detail: str, tries: int) -> None:
        super().__init__(f"{detail} ({tries} attempt{'' if tries == 1 else 's'})")
        self.detail = detail
        self.tries = tries


class Torn(AnnalsError):
    """Events after the requested position were removed by retention.

    Start again with a snapshot, or accept the gap and follow after `event_id`.
    """

    def __init__(self, event_id: int) -> None:
        super().__init__(
            f"events up to {event_id} were removed by retention: start with a snapshot, or follow after {event_id}"
        )
        self.event_id = event_id


class Unexpected(AnnalsError):
    """The response is not from Annals, or the server had an internal error."""

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


def error_from_response(status: int, problem: Mapping[str, object]) -> AnnalsError:
    detail = str(problem.get("detail") or problem.get("message") or problem.get("title") or "no reason given")
    refusal = REFUSALS.get(status)
    if refusal is None:
        return Unexpected(status, detail)
    event_id = problem.get("eventId")
    return refusal(status, detail, event_id if isinstance(event_id, int) else None)
