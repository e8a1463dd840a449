"""What Annals refuses, and why.

AnnalsError
├── Refused                     the request cannot be granted as it is
│   ├── BadInput                it breaks a rule: say which, and what is right
│   ├── TooLarge                it is beyond a limit
│   ├── UnsupportedMediaType    it is in a format nobody here reads
│   ├── NotAcceptable           it asks for a format that this is not to be had in
│   ├── NotFound                what it names does not exist
│   │   └── NoSuchOrganization  nobody created the organization yet
│   ├── Forbidden               the caller lacks the organization or the group
│   ├── ConditionFailed         an event matches its append condition
│   └── KeyReused               its idempotency key came with another request before
├── Conflict                    another writer was first: read the head, then try again
│   ├── SessionTaken            the session is committed
│   └── KeyTaken                the idempotency key is in use
├── Busy                        too many writers for the time there was
├── Unavailable                 the store gave no answer: the outcome is unknown
├── Unwritable                  the store takes nothing now: its disk is full or read-only
├── Unusable                    what is stored cannot be read: it is damaged, or not ours
│   └── LogBroken               the stored log contradicts itself
└── NotDelivered                a channel did not take a message: try again later
    └── Undeliverable           it never will: no use to try again
"""


class AnnalsError(Exception):
    """Anything Annals says no to."""


class Refused(AnnalsError):
    """The request cannot be granted as it is; repeating it will not help."""


class BadInput(Refused):
    """The request breaks a rule; the message says which one and what is right."""


class TooLarge(Refused):
    """The request is beyond a limit; the message names it."""


class UnsupportedMediaType(Refused):
    """The request is in a format nobody here reads."""


class NotAcceptable(Refused):
    """The request asks for a format that this is not to be had in."""


class NotFound(Refused):
    """What the request names does not exist."""


class NoSuchOrganization(NotFound):
    """Nobody created this organization yet."""

    def __init__(self, organization: str) -> None:
        super().__init__(
            f"organization '{organization}' does not exist; an admin creates it with PUT /organizations/{organization}"
        )
        self.organization = organization


class Forbidden(Refused):
    """The caller is known, but lacks the organization or the group."""


class ConditionFailed(Refused):
    """An event after the condition's position matches it."""

    def __init__(self, event_id: int) -> None:
        super().__init__(f"event {event_id} matches the append condition")
        self.event_id = event_id


class KeyReused(Refused):
    """The same idempotency key came with another request before."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Idempotency-Key '{key}' was used for another request; use a new key for a new request")
        self.key = key


class Conflict(AnnalsError):
    """Another writer was first: read the head, then try again."""


class SessionTaken(Conflict):
    """Another writer committed this session first."""

    def __init__(self, server: int, session: int) -> None:
        super().__init__(f"session {session} of server {server} is already committed")
        self.server = server
        self.session = session


class KeyTaken(Conflict):
    """Another writer used this idempotency key first."""

    def __init__(self, server: int, key: str) -> None:
        super().__init__(f"idempotency key '{key}' of server {server} is already in use")
        self.server = server
        self.key = key


class Busy(AnnalsError):
    """There was no time for it: too many writers, or a store that is slow to answer them; nothing was written."""


class Unavailable(AnnalsError):
    """The store gave no answer in time: what was asked may or may not have happened."""


class Unwritable(AnnalsError):
    """The store takes nothing now, for its disk is full or read-only; nothing was written."""


class Unusable(AnnalsError):
    """What is stored cannot be read: it is damaged, or not ours. Somebody has to look."""


class LogBroken(Unusable):
    """The stored log contradicts itself; reading on could skip or repeat events."""


class NotDelivered(AnnalsError):
    """A channel did not take a message now; it may later, in `retry_after_s` if it said so."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Undeliverable(NotDelivered):
    """The message cannot be made, or no channel will ever take it."""
