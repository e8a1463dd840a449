"""Reads the checkpoints of consumers."""

from chalicelib.domain.views.record import Checkpoint, checkpoints_view
from chalicelib.services.ports import Views

OBSERVE_CONSUMER = "observe"
"""Name of the consumer that matches events with observers."""


def load_checkpoint(consumer: str, server: int, views: Views) -> Checkpoint:
    """Position of the consumer in the log of `server`."""
    return Checkpoint.from_record(server, views.get(checkpoints_view(server), [consumer]).get(consumer))
