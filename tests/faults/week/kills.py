"""Kills of worker processes: at any write, before it, after it, or when a part of it is done."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from chalicelib.wiring import Components

Moment = Literal["before", "within", "after"]

MIN_WRITES = 6
"""Between two kills. A delivery is parked if its process ends during too many tries in a row."""
WRITES = {
    "log": ("append",),
    "views": ("put", "delete", "drop"),
    "progress": ("put", "delete"),
    "outbox": ("put", "record_tries", "record_outcome"),
}
"""By store, the methods that write. Each call is one transaction."""
DIVISIBLE = {"views.put", "views.delete", "progress.put", "progress.delete", "outbox.put"}
"""Their contract does not promise that all or nothing is written."""


class Killed(BaseException):
    """Ends a worker like SIGKILL: no code of the product handles it."""


@dataclass
class Kills:
    """Decides which writes of the workers are killed.

    Of each kind of write, the first ones are killed often and later ones less often, so that rare kinds are killed as
    well as frequent ones.
    """

    rng: random.Random
    between: Callable[[str], None] = lambda _: None
    """Called with the kind of write before and after some of the writes: what other processes do at that time."""
    is_armed: bool = True
    writes: Counter[str] = field(default_factory=Counter)
    kills: Counter[tuple[str, Moment]] = field(default_factory=Counter)
    _next: dict[str, int] = field(default_factory=dict)
    _last_kill: int = 0

    def wrap(self, components: Components) -> Components:
        """Let the writes of a process be killed."""
        for name, methods in WRITES.items():
            store = getattr(components.stores, name)
            for method in methods:
                setattr(store, method, partial(self._write, f"{name}.{method}", getattr(store, method)))
        return components

    def _write(self, method: str, write: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        if arguments and isinstance(arguments[0], Sequence) and not arguments[0]:
            return write(*arguments, **more)  # Nothing is written.
        kind, parts = _kind(method, arguments), arguments[-1] if method in DIVISIBLE else ()
        moment = self._moment(kind, is_divisible=len(parts) > 1)
        if moment == "before":
            self._kill(kind, moment)
        if moment == "within":
            write(*arguments[:-1], parts[: self.rng.randrange(1, len(parts))])
            self._kill(kind, moment)
        self.between(kind)
        result = write(*arguments, **more)
        if moment == "after":
            self._kill(kind, moment)
        self.between(kind)
        return result

    def _moment(self, kind: str, is_divisible: bool) -> Moment | None:
        self.writes[kind] += 1
        count, total = self.writes[kind], self.writes.total()
        if not self.is_armed or count < self._next.setdefault(kind, 1) or total < self._last_kill + MIN_WRITES:
            return None
        self._next[kind] = count + self.rng.randrange(1, 4 + count // 10)
        self._last_kill = total
        moments: list[Moment] = ["before", "after", "within"] if is_divisible else ["before", "after"]
        return min(moments, key=lambda moment: (self.kills[kind, moment], self.rng.random()))

    def _kill(self, kind: str, moment: Moment) -> None:
        self.kills[kind, moment] += 1
        raise Killed(f"{moment} {kind}")


def _kind(method: str, arguments: Sequence[Any]) -> str:
    """The method, and what it writes."""
    match method:
        case "log.append":
            commit = arguments[0][0]
            what = "message" if commit.server < 0 else next(iter(commit.events)).fields.type[1]
        case "views.put" | "progress.put":
            what = _name_of_view(arguments[0][0].record.view)
        case "views.delete" | "views.drop" | "progress.delete":
            what = _name_of_view(arguments[0])
        case _:
            what = ""
    return f"{method} {what}".strip()


def _name_of_view(view: str) -> str:
    """Without the number of the log and other details."""
    return view.lstrip("-.0123456789").lstrip("/").partition("/")[0].partition(":")[0]
