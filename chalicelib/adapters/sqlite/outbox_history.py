"""The queries of the history of deliveries, and its records."""

from chalicelib.adapters.sqlite.outbox_table import DROPPED, PARKED, SENT, WAITING, Row
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery_record import DeliveryRecord, DeliveryStatus

STATUSES: dict[int, DeliveryStatus] = {WAITING: "waiting", PARKED: "parked", SENT: "sent", DROPPED: "dropped"}

_OF_STATE = """
SELECT n FROM (
    SELECT n FROM delivery INDEXED BY delivery_state
    WHERE state = {state} AND server = ?1 AND observer = ?2 AND n < ?3 ORDER BY n DESC LIMIT ?4
)
"""
# Each part reads at most one page of an index that exists for other reasons, so the history costs nothing to write.
NEWEST = " UNION ALL ".join(_OF_STATE.format(state=state) for state in STATUSES) + " ORDER BY n DESC LIMIT ?4"
"""Numbers of the newest deliveries of an observer: server, observer, end, limit."""
NEWEST_OF_EVENT = """
SELECT n FROM delivery INDEXED BY delivery_id
WHERE server = ?1 AND observer = ?2 AND n < ?3 AND id >= ?5 AND id < ?6 AND state < 4 ORDER BY n DESC LIMIT ?4
"""
"""Numbers of the newest deliveries about an event: also the first id, and the end of the ids."""

_MAX_NUMBER = 2**63 - 1


def parse_cursor(text: str) -> int:
    """The number before which the page starts. Raises `BadInput` for a text that is not a cursor."""
    if not text:
        return _MAX_NUMBER
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadInput("cursor: it is not the cursor of a page")
    return int(text)


def record_of(row: Row) -> DeliveryRecord:
    return DeliveryRecord(
        cursor=str(row.n),
        id=row.id,
        observer=row.observer,
        event=Id(row.server, row.session, row.instance),
        status=STATUSES[row.state],
        address=row.address,
        replay=row.replay,
        tries=row.tries,
        error=row.error,
        at_ms=row.put if row.state == WAITING else row.at,
    )
