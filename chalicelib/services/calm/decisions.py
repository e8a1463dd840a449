"""The decisions of the matcher: which events are messages at once, which are held, and which are muted.

The states of the observers are stored after the deliveries are in the outbox, and before the checkpoint moves. A run
that is repeated skips the events up to the stored state of an observer. It decides the same about the others, and the
outbox ignores the deliveries that it has.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chalicelib.domain.calm.fold import CalmState, Digest, Send, decide
from chalicelib.domain.calm.mutes import ALERT_TEXT_START, Mutes
from chalicelib.domain.calm.outcomes import Facts, group_of, outcome_of
from chalicelib.domain.calm.rule import CalmRule
from chalicelib.domain.events.event import Event
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.observer import ConfigurationState, Observer
from chalicelib.domain.views.due import Deadline
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.calm.deliveries import digest_deliveries, event_deliveries
from chalicelib.services.calm.held_messages import KIND, deadline_of
from chalicelib.services.calm.states import CalmStates, StoredMutes, StoredState
from chalicelib.services.consumers.due_index import DueIndex

Passes = Callable[[Event, Observer, ConfigurationState], bool]
"""Whether the filter of an observer and the flags of an event let it pass. Loads the templates when first called."""


class CalmDecisions:
    """Starts the runs of the matcher. Keeps the mutes of each log in memory, so that most runs need not load them."""

    def __init__(self, states: CalmStates, index: DueIndex, passes: Passes) -> None:
        self.states = states
        self.passes = passes
        self._index = index
        self._mutes: dict[int, tuple[int, StoredMutes]] = {}
        """By server: the session up to which they are folded."""

    def start(self, checkpoint: Checkpoint, configured: ConfigurationState) -> "CalmRun":
        """Start a run at a checkpoint."""
        head = checkpoint.head
        session, stored = self._mutes.pop(head.server, (-1, StoredMutes(Mutes())))
        if session != head.session:
            stored = self.states.load_mutes(head.server)
        return CalmRun(self, head.server, configured, stored, stored.mutes.since(head.last_event_id))

    def reschedule(self, server: int, name: str, now_us: int) -> None:
        """Look at the held messages of an observer soon, because its configuration has changed."""
        self._index.add(KIND, server, [Deadline(name, now_us, 0)])

    def store(self, run: "CalmRun", session: int) -> bool:
        """Store what a run has changed. Returns False if another process has changed it meanwhile."""
        changed = list(run.changed_states())
        # Entered first: a deadline without a message does no harm, a message without a deadline would not be sent.
        self._index.add(
            KIND,
            run.server,
            [
                deadline_of(observer.name, state.next_due_us)
                for observer, state, stored in changed
                if state.next_due_us is not None and state.next_due_us != stored.state.next_due_us
            ],
        )
        writes = [self.states.write(run.server, observer, state, stored.version) for observer, state, stored in changed]
        if run.has_new_mutes:
            writes.append(self.states.write_mutes(run.server, run.mutes, run.stored_mutes.version))
        if writes and self.states.progress.put(writes):
            return False
        run.mark_as_stored()
        self._mutes[run.server] = session, run.stored_mutes
        return True


@dataclass
class CalmRun:
    """The decisions about consecutive commits of a log."""

    decisions: CalmDecisions
    server: int
    configured: ConfigurationState
    stored_mutes: StoredMutes
    mutes: Mutes
    has_new_mutes: bool = False

    def __post_init__(self) -> None:
        self._stored: dict[str, StoredState] = {}
        self._states: dict[str, CalmState] = {}
        self._rules: dict[str, CalmRule] = {}

    def fold_mutes(self, commits: Sequence[Commit]) -> None:
        """Apply the silences and acknowledgements of commits. They mute only later events."""
        for commit in commits:
            mutes = fold_mutes(self.mutes, commit)
            self.has_new_mutes |= mutes is not self.mutes
            self.mutes = mutes

    def deliveries(self, event: Event, observer: Observer) -> Iterator[Delivery]:
        """The deliveries to put because of an event that concerns the observer."""
        if not observer.is_calm_at(event.event_id):
            if not self.mutes.mutes(event):
                yield from event_deliveries(event, observer)
            return
        if observer.name not in self._states:
            self._load(observer)
        state = self._states[observer.name]
        if event.event_id <= state.position:
            return
        facts = facts_of(
            event, observer, self._rules[observer.name], self.mutes, self.configured, self.decisions.passes
        )
        state, decision, released = decide(state, self._rules[observer.name], facts)
        self._states[observer.name] = state
        yield from _all_digest_deliveries(released, observer)
        if isinstance(decision, Send):
            yield from event_deliveries(event, observer)

    def changed_states(self) -> Iterator[tuple[Observer, CalmState, StoredState]]:
        for name, state in self._states.items():
            if not state.is_as_stored(self._stored[name].state):
                yield self.configured.observers[name], state, self._stored[name]

    def mark_as_stored(self) -> None:
        for observer, state, stored in list(self.changed_states()):
            self._stored[observer.name] = StoredState(state, (stored.version or 0) + 1)
        version = (self.stored_mutes.version or 0) + 1 if self.has_new_mutes else self.stored_mutes.version
        self.stored_mutes, self.has_new_mutes = StoredMutes(self.mutes, version), False

    def _load(self, observer: Observer) -> None:
        """Load the states of all calm observers at once."""
        calm = [one for one in self.configured.observers.values() if one is observer or one.configuration.is_calm]
        missing = [one for one in calm if one.name not in self._states]
        for name, stored in self.decisions.states.load(self.server, missing).items():
            self._stored[name], self._states[name] = stored, stored.state
            self._rules[name] = self.configured.observers[name].calm_rule


def fold_mutes(mutes: Mutes, commit: Commit) -> Mutes:
    """The mutes after a commit. Parses its events only if they may change the mutes."""
    if ALERT_TEXT_START in commit.body or mutes.has_open_acknowledgements:
        for event in commit.events:
            mutes = mutes.fold(event, commit.by)
    return mutes


def facts_of(
    event: Event, observer: Observer, rule: CalmRule, mutes: Mutes, configured: ConfigurationState, passes: Passes
) -> Facts:
    """The facts about an event that concerns the observer. The filter is evaluated only if it matters."""
    fields = event.fields
    outcome, is_muted = outcome_of(fields), mutes.mutes(event)
    is_considered = not is_muted and (rule.when == "every" or outcome != "other")
    return Facts(
        id=event.id,
        event_id=event.event_id,
        group=group_of(fields, rule.group_by),
        outcome=outcome,
        passes=is_considered and passes(event, observer, configured),
        is_muted=is_muted,
    )


def _all_digest_deliveries(digests: Sequence[Digest], observer: Observer) -> Iterator[Delivery]:
    for digest in digests:
        yield from digest_deliveries(digest, observer)
