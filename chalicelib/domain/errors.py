"""The errors of Annals.

AnnalsError
├── Refused                     the request is invalid or not allowed: do not retry it
│   ├── BadInput                it violates a rule
│   ├── TooLarge                it exceeds a limit
│   ├── UnsupportedMediaType    its format is not supported
│   ├── NotAcceptable           it asks for a response format that is not available
│   ├── NotFound                it names something that does not exist
│   │   └── NoSuchOrganization  the organization has not been created
│   ├── Forbidden               the caller lacks the organization or the group
│   ├── ConditionFailed         an event matches its append condition
│   ├── AlreadyExists           it would create something that exists
│   └── KeyReused               its idempotency key belongs to a different request
├── Conflict                    another writer was first: read the head, then retry
│   └── SessionTaken            the session is already committed
├── Busy                        too many concurrent writers: nothing was written
├── Unavailable                 the store or the token issuer did not respond: the outcome is unknown
│   ├── ViewsReset              the views were damaged and are empty now: read again
│   └── CommitsDeleted          retention has deleted commits after the checkpoint: read again
├── Unwritable                  the disk is full or read-only: nothing was written
├── Unusable                    stored data is damaged or not from Annals
│   ├── LogBroken               the stored log is inconsistent
│   └── DamagedRecord           the content of a view record does not match its checksum
└── NotDelivered                a channel did not accept a message: retry later
    ├── RateLimited             the channel accepts no more messages for now: wait, then retry
    └── Undeliverable           the channel will never accept it: do not retry
"""


class AnnalsError(Exception):
    """Any error that Annals raises on purpose."""


class Refused(AnnalsError):
    """The request is invalid or not allowed. Repeating it does not help."""


class BadInput(Refused):
    """The request violates a rule. The message names the rule."""


class TooLarge(Refused):
    """The request exceeds a limit. The message names the limit."""


class UnsupportedMediaType(Refused):
    """The format of the request is not supported."""


class NotAcceptable(Refused):
    """The request asks for a response format that is not available."""


class NotFound(Refused):
    """The request names something that does not exist."""


class NoSuchOrganization(NotFound):
    """The organization has not been created."""

    def __init__(self, organization: str) -> None:
        super().__init__(
            f"organization '{organization}' does not exist; an admin creates it with PUT /organizations/{organization}"
        )
        self.organization = organization


class Forbidden(Refused):
    """The caller is authenticated, but lacks the organization or the group."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason} {remedy}".strip())
        self.reason = reason


class ConditionFailed(Refused):
    """An event after the condition's position matches it."""

    def __init__(self, event_id: int) -> None:
        super().__init__(f"event {event_id} matches the append condition")
        self.event_id = event_id


class AlreadyExists(Refused):
    """The request would create something that exists."""


class KeyReused(Refused):
    """The idempotency key was used for a different request before."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Idempotency-Key '{key}' was used for another request; use a new key for a new request")
        self.key = key


class Conflict(AnnalsError):
    """Another writer was first. Read the head, then retry."""


class SessionTaken(Conflict):
    """Another writer committed this session first."""

    def __init__(self, server: int, session: int) -> None:
        super().__init__(f"session {session} of server {server} is already committed")
        self.server = server
        self.session = session


class Busy(AnnalsError):
    """The deadline passed because of too many writers or a slow store. Nothing was written."""


class Unavailable(AnnalsError):
    """The store or the token issuer did not respond in time. The operation may or may not have happened."""


class ViewsReset(Unavailable):
    """The file of the views was damaged and has been emptied. The log still has everything: read again."""


class CommitsDeleted(Unavailable):
    """Retention has deleted commits after the checkpoint that the reader used. The views contain them: read again."""


class Unwritable(AnnalsError):
    """The store rejects writes because its disk is full or read-only. Nothing was written."""


class Unusable(AnnalsError):
    """Stored data is damaged or was not written by Annals. An operator has to look into it."""


class LogBroken(Unusable):
    """The stored log is inconsistent. Reading on could skip or repeat events."""


class DamagedRecord(Unusable):
    """The content of a view record does not match its checksum. `version` is the stored one, which may be wrong."""

    def __init__(self, view: str, item: str, version: int) -> None:
        super().__init__(f"record '{item}' of view '{view}' is damaged: its checksum is wrong")
        self.view = view
        self.item = item
        self.version = version


class NotDelivered(AnnalsError):
    """A channel did not accept a message, but may do so later, after `retry_after_s` if it named a time."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class RateLimited(NotDelivered):
    """The channel limits the rate or the number of messages. This says nothing about the message itself."""


class Undeliverable(NotDelivered):
    """The message cannot be built, or the channel will never accept it."""
