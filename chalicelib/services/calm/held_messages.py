"""Held messages: sent when their time has come, although no later event releases them.

The states of the observers say which messages are held. The due index only says when to look at an observer. Both are
in the store of the checkpoints, so the messages survive a loss of the views.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from chalicelib.domain.calm.fold import CalmState, advance
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.notifications.observer import Observer
from chalicelib.domain.views.due import SECOND_US, Deadline
from chalicelib.services.calm.deliveries import digest_deliveries
from chalicelib.services.calm.states import CalmStates, StoredState
from chalicelib.services.consumers.checkpoints import OBSERVE_CONSUMER, load_checkpoint
from chalicelib.services.notifications.registry import ObserverRegistry
from chalicelib.services.ports import Log, Outbox

KIND = "digest"
"""The kind of work in the due index."""
DELAY_US = 5 * SECOND_US
"""Held messages are sent this long after their time. A commit has a time before it is stored.

An event that is stored even later than that becomes part of the next message of its group.
"""


@dataclass(frozen=True, slots=True)
class HeldMessages:
    """Puts held messages into the outbox. Implements `TimedWork`, with the names of observers."""

    observers: ObserverRegistry
    states: CalmStates
    log: Log
    outbox: Outbox

    def deadlines(self, commits: Sequence[Commit]) -> Iterable[Deadline]:
        """None: the consumer that matches events with observers enters them."""
        del commits
        return ()

    def check(self, server: int, deadlines: Sequence[Deadline], now_us: int) -> Iterator[Deadline]:
        """Send the messages that are due. Only events that are matched already can be part of them."""
        head = self.log.head(server)
        matched = load_checkpoint(OBSERVE_CONSUMER, server, self.states.progress).head
        until_us = now_us - DELAY_US
        waiting = set[Deadline]()
        if matched.session < head.session:
            until_us = min(until_us, matched.last_event_id)
            # The consumer enters a deadline before it stores the state, so the message may not be there yet.
            waiting = {one for one in deadlines if one.event_id > matched.last_event_id}
        by_name = self.observers.load(server).observers
        observers = [by_name[name] for name in dict.fromkeys(one.name for one in deadlines) if name in by_name]
        for name, stored in self.states.load(server, observers).items():
            state = self._release(server, by_name[name], stored, until_us)
            if state is None:  # Another process has changed it. It is loaded again in the next run.
                waiting |= {one for one in deadlines if one.name == name}
            elif state.next_due_us is not None:
                yield deadline_of(name, state.next_due_us)
        yield from waiting

    def stored_deadlines(self, server: int) -> list[Deadline]:
        """The deadlines of all messages that are held in a log."""
        by_name = self.observers.load(server).observers
        observers = [by_name[name] for name in self.states.names(server) if name in by_name]
        return [
            deadline_of(name, stored.state.next_due_us)
            for name, stored in self.states.load(server, observers).items()
            if stored.state.next_due_us is not None
        ]

    def _release(self, server: int, observer: Observer, stored: StoredState, until_us: int) -> CalmState | None:
        """Send what is due, then store the new state. Returns None if another process has changed it."""
        state, released = advance(stored.state, observer.calm_rule, until_us)
        self.outbox.put([delivery for digest in released for delivery in digest_deliveries(digest, observer)])
        if state.is_as_stored(stored.state):
            return state
        refused = self.states.progress.put([self.states.write(server, observer, state, stored.version)])
        return None if refused else state


def deadline_of(name: str, due_us: int) -> Deadline:
    """The deadline of the held messages of an observer."""
    return Deadline(name, due_us, DELAY_US)
