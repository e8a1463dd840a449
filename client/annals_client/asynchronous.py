"""The client for asyncio: the methods of `Annals`, to be awaited or iterated over with `async for`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import httpx

from annals_client.calls import events, installation, objects, observers, queries
from annals_client.method_binding import dressed
from annals_client.sans_io import Ask, Give, Manners, Outcome, Pause, Steps, Values
from annals_client.transport import Sender, Token, answer_of, lost_by, note

P = ParamSpec("P")
T = TypeVar("T")


class AsyncCaller:
    """Takes the steps of calls, one after the other."""

    def __init__(self, sender: Sender, manners: Manners, http: httpx.AsyncClient) -> None:
        self._sender = sender
        self.manners = manners
        self._http = http

    async def result(self, steps: Steps[T]) -> T:
        """What the steps lead to."""
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                found: T = end.value
                return found
            outcome = await self._taken(step)

    async def values(self, steps: Values[T]) -> AsyncGenerator[T, None]:
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
                outcome = await self._taken(step)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _taken(self, step: Ask | Pause) -> Outcome:
        if isinstance(step, Pause):
            note(step)
            await asyncio.sleep(step.seconds)
            return None
        try:
            return answer_of(await self._http.send(self._sender.message(step)))
        except httpx.TransportError as failure:
            return lost_by(failure)


class Returns(Generic[P, T]):
    """A method that returns what a call's steps lead to, once awaited."""

    def __init__(self, call: Callable[Concatenate[Manners, P], Steps[T]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(self, part: "AsyncPart", owner: type) -> Callable[P, Coroutine[Any, Any, T]]:
        def method(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            return part.caller.result(self._call(part.caller.manners, *args, **kwargs))

        return dressed(method, self._call)


class Iterates(Generic[P, T]):
    """A method that iterates over what a call's steps give."""

    def __init__(self, call: Callable[Concatenate[Manners, P], Values[T]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(self, part: "AsyncPart", owner: type) -> Callable[P, AsyncGenerator[T, None]]:
        def method(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
            return part.caller.values(self._call(part.caller.manners, *args, **kwargs))

        return dressed(method, self._call)


class AsyncPart:
    """Some of the methods."""

    def __init__(self, caller: AsyncCaller) -> None:
        self.caller = caller


class AsyncQueries(AsyncPart):
    """The three queries."""

    latest = Returns(queries.latest)
    timeseries = Iterates(queries.timeseries)
    server = Iterates(queries.server)


class AsyncObservers(AsyncPart):
    """Who is told about which events."""

    list = Returns(observers.observers)
    get = Returns(observers.get)
    put = Returns(observers.put)
    delete = Returns(observers.delete)
    failures = Iterates(observers.failures)
    retry = Returns(observers.retry)
    replay = Iterates(observers.replay)


class AsyncReports(AsyncPart):
    """The pages that are made of the history."""

    list = Returns(installation.reports)
    link = Returns(installation.link)


class AsyncAnnals(AsyncPart):
    """A client: publishes, follows, asks. Use it in an `async with` block, or close it."""

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
        """`deadline_s` is how long a call may take, repeats included; `http` are options of `httpx.AsyncClient`."""
        sender = Sender(url, token, organization)
        super().__init__(AsyncCaller(sender, manners or Manners(deadline_s), httpx.AsyncClient(**http)))
        self.query = AsyncQueries(self.caller)
        self.observers = AsyncObservers(self.caller)
        self.reports = AsyncReports(self.caller)

    async def close(self) -> None:
        """Close all connections."""
        await self.caller.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
