"""Rebuild views of which a record is damaged, without an operator.

The views of the damaged log start over. Until the projector has caught up, readers read the log itself.
"""

import logging
import re

from chalicelib.domain.errors import DamagedRecord
from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import PROJECTOR, Checkpoint, checkpoints_view
from chalicelib.services.clock import wall_clock
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.ports import Clock, Views

REBUILD = "rebuild"
"""Name of the consumer that rebuilds the views."""
MAX_DAMAGED_RECORDS = 10
"""A store with more damaged checkpoints of one log is not healed."""

_VIEW_NAME = re.compile(r"(?P<server>-?\d+)(?P<version>\.\d+(?:\.\d+)?)?/.*", re.DOTALL)

_log = logging.getLogger("annals")


def heal(views: Views, damaged: DamagedRecord) -> None:
    """Start the views with this record over. Raises `damaged` if the log cannot restore it."""
    name = _VIEW_NAME.fullmatch(damaged.view)
    if name is None:
        raise damaged
    server = int(name["server"])
    for _ in range(MAX_DAMAGED_RECORDS):
        try:
            _start_over(server, name["version"] is not None, damaged, views)
        except DamagedRecord as another:
            # A checkpoint that was read meanwhile.
            if another.view != checkpoints_view(server):
                raise
            _replace_checkpoint(another, server, views)
        else:
            _log.warning("%s; the views of log %d are rebuilt", damaged, server)
            return
    raise damaged


def reset_views(server: int, views: Views, clock: Clock = wall_clock) -> None:
    """Make the projector start over with empty views. Until it has caught up, readers read the log itself."""
    current = load_checkpoint(PROJECTOR, server, views)
    newest = max(current.generation, load_checkpoint(REBUILD, server, views).generation)
    reset = Checkpoint(Head(server), newest + 1, switched_at_ms=clock())
    views.put([reset.to_write(PROJECTOR, current.record_version)])


def _start_over(server: int, is_view: bool, damaged: DamagedRecord, views: Views) -> None:
    if damaged.view == checkpoints_view(server):
        _replace_checkpoint(damaged, server, views)
    elif is_view:
        reset_views(server, views)
    else:
        raise damaged


def _replace_checkpoint(damaged: DamagedRecord, server: int, views: Views, clock: Clock = wall_clock) -> None:
    """Replace a damaged checkpoint by one at the start of the log, with a generation that was not used yet.

    Its views replace those of the damaged one, which readers may still use.
    """
    if damaged.item not in (PROJECTOR, REBUILD):
        raise damaged
    generation = Checkpoint.generation_of(damaged.version) + 1
    checkpoint = Checkpoint(Head(server), generation, switched_at_ms=clock())
    views.put([checkpoint.to_write(damaged.item, damaged.version)])
