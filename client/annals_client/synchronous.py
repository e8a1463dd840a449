"""The client for threads. Several may share one."""

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import httpx

from annals_client.calls import events, installation, objects, observers, queries
from annals_client.method_binding import dressed
from annals_client.sans_io import Ask, Give, Manners, Outcome, Pause, Steps, Values
from annals_client.transport import Sender, Token, answer_of, lost_by, note

P = ParamSpec("P")
T = TypeVar("T")


class Caller:
    """Takes the steps of calls, one after the other."""

    def __init__(self, sender: Sender, manners: Manners, http: httpx.Client) -> None:
        self._sender = sender
        self.manners = manners
        self._http = http

    def result(self, steps: Steps[T]) -> T:
        """What the steps lead to."""
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                found: T = end.value
                return found
            outcome = self._taken(step)

    def values(self, steps: Values[T]) -> Iterator[T]:
        """What the steps give."""
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration:
                return
            if isinstance(step, Give):
                yield step.value
                outcome = None
            else:
                outcome = self._taken(step)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def _taken(self, step: Ask | Pause) -> Outcome:
        if isinstance(step, Pause):
            note(step)
            time.sleep(step.seconds)
            return None
        try:
            return answer_of(self._http.send(self._sender.message(step)))
        except httpx.TransportError as failure:
            return lost_by(failure)


class Returns(Generic[P, T]):
    """A method that returns what a call's steps lead to."""

    def __init__(self, call: Callable[Concatenate[Manners, P], Steps[T]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(self, part: "Part", owner: type) -> Callable[P, T]:
        def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return part.caller.result(self._call(part.caller.manners, *args, **kwargs))

        return dressed(method, self._call)


class Iterates(Generic[P, T]):
    """A method that iterates over what a call's steps give."""

    def __init__(self, call: Callable[Concatenate[Manners, P], Values[T]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(self, part: "Part", owner: type) -> Callable[P, Iterator[T]]:
        def method(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
            return part.caller.values(self._call(part.caller.manners, *args, **kwargs))

        return dressed(method, self._call)


class Part:
    """Some of the methods."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller


class Queries(Part):
    """The three queries."""

    latest = Returns(queries.latest)
    timeseries = Iterates(queries.timeseries)
    server = Iterates(queries.server)


class Observers(Part):
    """Who is told about which events."""

    list = Returns(observers.observers)
    get = Returns(observers.get)
    put = Returns(observers.put)
    delete = Returns(observers.delete)
    failures = Iterates(observers.failures)
    retry = Returns(observers.retry)
    replay = Iterates(observers.replay)


class Reports(Part):
    """The pages that are made of the history."""

    list = Returns(installation.reports)
    link = Returns(installation.link)


class Annals(Part):
    """A client: publishes, follows, asks. Use it in a `with` block, or close it."""

    publish = Returns(events.publish)
    newest = Returns(events.newest)
    follow = Iterates(events.follow)
    snapshot = Returns(objects.snapshot)
    system = Returns(installation.system)
    me = Returns(installation.me)

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        organization: str | None = None,
        deadline_s: float = 60.0,
        manners: Manners | None = None,
        **http: Any,
    ) -> None:
        """`deadline_s` is how long a call may take, repeats included; `http` are options of `httpx.Client`."""
        sender = Sender(url, token, organization)
        super().__init__(Caller(sender, manners or Manners(deadline_s), httpx.Client(**http)))
        self.query = Queries(self.caller)
        self.observers = Observers(self.caller)
        self.reports = Reports(self.caller)

    def close(self) -> None:
        """Close all connections."""
        self.caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
