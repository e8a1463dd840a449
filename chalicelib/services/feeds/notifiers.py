"""The two ways to learn that a log has grown: be told, or look again."""

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import chain, count, islice

from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import Selection

FIRST_LOOK_S = 0.025
LATEST_LOOK_S = 0.5
DOUBLINGS = 3
"""So often the pause between looks is doubled; then it grows by ..."""
GROWTH = 0.05
"""... this part of what was waited: whoever waited a second in vain may wait some milliseconds more."""
REMEMBERED = 256
"""Commits that a bell knows of each log, for those who come to wait a little late ..."""
REMEMBERED_BYTES = 1024 * 1024
"""... and how much of them together."""


class Waiter:
    """Somebody who waits for something selected, and how they are told that it may have come."""

    __slots__ = ("known", "selection", "tell")

    def __init__(self, known: Head, selection: Selection, tell: Callable[[], None]) -> None:
        self.known = known
        """Nothing selected came up to here."""
        self.selection = selection
        self.tell = tell


class Bell:
    """Told by the writers of this process: wakes at once those who wait for what was written, and nobody else.

    Whoever waits for the same is one group, and what is written is looked at once for each group.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._groups: dict[int, dict[Selection, dict[Waiter, None]]] = {}
        self._recent: dict[int, _Recent] = {}
        self._ends: dict[int, int] = {}
        """The session with which each log that somebody waits for ended when it was looked at last."""
        self._open = True

    def ring(self, commit: Commit) -> None:
        """The commit is in the log."""
        server = commit.server
        with self._mutex:
            is_next, recent = self._is_next(commit), self._recent.get(server)
            if recent is None or not is_next:
                # If it is not the next one, somebody else writes too: what came between has to be looked for.
                recent = self._recent[server] = _Recent()
            recent.add(commit)
            if groups := self._groups.get(server):
                before = Head(server, commit.session - 1, 0, commit.prev)
                woken = [selection for selection in groups if not is_next or _selects(selection, commit)]
                for waiter in chain.from_iterable(groups.pop(selection) for selection in woken):
                    waiter.known = before if is_next else waiter.known
                    waiter.tell()

    def wait(self, seen: Head, selection: Selection, timeout_s: float, turn: int) -> Head | None:
        """Return when something selected may have come after `seen`, or after `timeout_s`.

        The answer is a head up to which nothing selected came; None once closed.
        """
        del turn
        lock = threading.Lock()
        lock.acquire()
        waiter = self.listen(seen, selection, lock.release)
        lock.acquire(timeout=min(max(timeout_s, 0.0), threading.TIMEOUT_MAX))
        return self.leave(waiter)

    def listen(self, seen: Head, selection: Selection, tell: Callable[[], None]) -> Waiter:
        """Have `tell` called once when something selected may have come after `seen`, perhaps at once.

        It is called by whoever writes, so it must take no time.
        """
        with self._mutex:
            known, has_come = self._looked(seen, selection)
            waiter = Waiter(known, selection, tell)
            self._ends.setdefault(seen.server, 0)
            if has_come or not self._open:
                tell()
            else:
                self._groups.setdefault(seen.server, {}).setdefault(selection, {})[waiter] = None
        return waiter

    def leave(self, waiter: Waiter) -> Head | None:
        """Wait no more, told or not; the head up to which nothing selected came, None once closed."""
        with self._mutex:
            server = waiter.known.server
            group = self._groups.get(server, {}).get(waiter.selection, {})
            if waiter in group:
                del group[waiter]
                if not group:
                    del self._groups[server][waiter.selection]
                recent = self._recent.get(server)
                if recent is not None and recent.commits[-1].session > waiter.known.session:
                    waiter.known = recent.commits[-1].head
            return waiter.known if self._open else None

    def stir(self, head: Callable[[int], Head]) -> None:
        """Another process may have written: wake those whose log ends elsewhere than is known here."""
        with self._mutex:
            servers = list(self._ends)
        for server in servers:
            end = head(server)
            with self._mutex:
                self._ends[server] = end.session
                recent = self._recent.get(server)
                groups = self._groups.get(server, {})
                known = None if recent is None else recent.commits[-1].session
                seen = min((w.known.session for w in chain.from_iterable(groups.values())), default=end.session)
                if (seen if known is None else known) >= end.session:
                    continue
                self._recent.pop(server, None)
                for waiter in chain.from_iterable(self._groups.pop(server, {}).values()):
                    waiter.tell()

    def close(self) -> None:
        """Send everybody who waits home."""
        with self._mutex:
            self._open = False
            for groups in self._groups.values():
                for waiter in chain.from_iterable(groups.values()):
                    waiter.tell()
            self._groups.clear()

    def _is_next(self, commit: Commit) -> bool:
        """Whether nothing unheard of lies between the commit and what is known here."""
        recent = self._recent.get(commit.server)
        if recent is not None:
            return recent.commits[-1].session == commit.session - 1
        waiting = chain.from_iterable(self._groups.get(commit.server, {}).values())
        return all(waiter.known.session >= commit.session - 1 for waiter in waiting)

    def _looked(self, seen: Head, selection: Selection) -> tuple[Head, bool]:
        """The head up to which nothing selected came after `seen`, and whether something may have come then."""
        recent, end = self._recent.get(seen.server), self._ends.get(seen.server, 0)
        last = 0 if recent is None else recent.commits[-1].session
        if max(last, end) <= seen.session:
            return seen, False
        if recent is None or end > last:
            return seen, True
        known = seen.session - recent.commits[0].session + 1
        if known < 0:
            return seen, True
        for commit in islice(recent.commits, known, None):
            if _selects(selection, commit):
                return seen, True
            seen = commit.head
        return seen, False


class _Recent:
    """The latest commits of a log, one after the other; the last one in any case."""

    __slots__ = ("commits", "size")

    def __init__(self) -> None:
        self.commits: deque[Commit] = deque()
        self.size = 0

    def add(self, commit: Commit) -> None:
        """One more; perhaps the first are forgotten."""
        self.commits.append(commit)
        self.size += len(commit.body)
        while len(self.commits) > REMEMBERED or (self.size > REMEMBERED_BYTES and len(self.commits) > 1):
            self.size -= len(self.commits.popleft().body)


class Looking:
    """Nobody tells: look again, soon at first, then less often.

    `goes_on` tells whether the log has grown after a head. It is a cheap look that may come a moment too late, so that
    only who has something to read, or no time left, reads.
    """

    def __init__(
        self,
        pause: Callable[[float], None] = time.sleep,
        goes_on: Callable[[Head], bool] = lambda _: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pause = pause
        self._goes_on = goes_on
        self._monotonic = monotonic
        self._open = True

    def wait(self, seen: Head, selection: Selection, timeout_s: float, turn: int) -> Head | None:
        """Return when something has come after `seen`, selected or not, or after `timeout_s`."""
        del selection
        until_s = self._monotonic() + timeout_s
        left_s = timeout_s
        for look in count(turn):
            self._pause(min(left_s, _look_s(look, timeout_s - left_s)))
            left_s = until_s - self._monotonic()
            if not self._open or left_s <= 0 or self._goes_on(seen):
                break
        return seen if self._open else None

    def close(self) -> None:
        """Let nobody look any more."""
        self._open = False


def _look_s(look: int, waited_s: float) -> float:
    """The pause before a look."""
    return min(LATEST_LOOK_S, FIRST_LOOK_S * 2.0 ** min(look, DOUBLINGS) + GROWTH * waited_s)


def _selects(selection: Selection, commit: Commit) -> bool:
    return selection.everything or any(selection.selects(event) for event in commit.events)
