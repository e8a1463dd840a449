"""The subscribers of one log, in groups with equal selections. Each commit is matched once per group.

Groups whose selections name keys are found by the keys of a commit, so followers of other keys cost nothing. The work
for a commit is limited, because the thread that publishes it serves other clients, too.

Threads: not thread-safe. `CommitNotifier` calls it with its lock held.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import Selection

MAX_MATCH_COST = 50_000
"""Maximum number of comparisons for a commit, about 20 ms. Beyond it, groups are woken without a match."""


class Subscription:
    """A reader waiting for a selected event. `notify` is called at most once."""

    __slots__ = ("head", "notify", "selection")

    def __init__(self, head: Head, selection: Selection, notify: Callable[[], None]) -> None:
        self.head = head
        """No selected event exists up to here."""
        self.selection = selection
        self.notify = notify


@dataclass(slots=True)
class _Group:
    keys: frozenset[str] | None
    match_cost: int
    subscriptions: dict[Subscription, None] = field(default_factory=dict)


class SubscriberGroups:
    """The subscribers of one log. False if there are none."""

    def __init__(self) -> None:
        self._groups: dict[Selection, _Group] = {}
        self._by_key: dict[str, dict[Selection, None]] = {}
        """The selections that name a key."""
        self._without_keys: dict[Selection, None] = {}
        """The selections that do not name keys."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __iter__(self) -> Iterator[Subscription]:
        return (subscription for group in self._groups.values() for subscription in group.subscriptions)

    @property
    def selections(self) -> list[Selection]:
        return list(self._groups)

    def add(self, subscription: Subscription) -> None:
        selection = subscription.selection
        group = self._groups.get(selection)
        if group is None:
            group = self._groups[selection] = _Group(selection.required_keys, selection.match_cost)
            if group.keys is None:
                self._without_keys[selection] = None
            for key in group.keys or ():
                self._by_key.setdefault(key, {})[selection] = None
        group.subscriptions[subscription] = None

    def remove(self, subscription: Subscription) -> bool:
        """Remove the subscription and return whether it was there."""
        group = self._groups.get(subscription.selection)
        if group is None or subscription not in group.subscriptions:
            return False
        del group.subscriptions[subscription]
        if not group.subscriptions:
            self.pop(subscription.selection)
        return True

    def pop(self, selection: Selection) -> list[Subscription]:
        """Remove and return the subscriptions with this selection."""
        group = self._groups.pop(selection)
        self._without_keys.pop(selection, None)
        for key in group.keys or ():
            named = self._by_key[key]
            del named[selection]
            if not named:
                del self._by_key[key]
        return list(group.subscriptions)

    def matching(self, commit: Commit) -> list[Selection]:
        """The selections of events in `commit`, and those for which checking that would take too long."""
        result: list[Selection] = []
        remaining_cost = MAX_MATCH_COST
        for selection in self._candidates(commit):
            cost = self._groups[selection].match_cost * commit.event_count
            if selection.selects_everything or cost > remaining_cost:
                result.append(selection)
                continue
            remaining_cost -= cost
            if may_select(selection, commit):
                result.append(selection)
        return result

    def _candidates(self, commit: Commit) -> Iterable[Selection]:
        if not self._by_key:
            return self._without_keys
        keys = {event.fields.key for event in commit.events}
        by_key = (self._by_key.get(key, {}) for key in keys if key is not None)
        return dict.fromkeys([*self._without_keys, *(selection for named in by_key for selection in named)])


def may_select(selection: Selection, commit: Commit) -> bool:
    """Whether `selection` selects an event of `commit`. Also true if checking that would take too long."""
    if selection.selects_everything or selection.match_cost * commit.event_count > MAX_MATCH_COST:
        return True
    return any(selection.selects(event) for event in commit.events)
