"""The asyncio client: the methods of `Annals`, to be awaited or iterated with `async for`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import httpx

from annals_client.calls import alerts, events, expectations, inbox, installation, objects, observers, queries
from annals_client.method_binding import copy_signature
from annals_client.sans_io import Emit, Outcome, Pause, RetryPolicy, Send, Steps, Values
from annals_client.transport import RequestBuilder, Token, log_retry, no_response_from, response_from_httpx

P = ParamSpec("P")
T = TypeVar("T")


class AsyncStepRunner:
    """Performs the steps of calls."""

    def __init__(self, request_builder: RequestBuilder, policy: RetryPolicy, http: httpx.AsyncClient) -> None:
        self._request_builder = request_builder
        self.policy = policy
        self._http = http

    async def run(self, steps: Steps[T]) -> T:
        """Perform all steps and return the result."""
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = await self._perform(step)

    async def iterate(self, steps: Values[T]) -> AsyncGenerator[T, None]:
        """Perform all steps and yield the emitted values."""
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration:
                return
            if isinstance(step, Emit):
                yield step.value
                outcome = None
            else:
                outcome = await self._perform(step)

    async def close(self) -> None:
        await self._http.aclose()

    async def _perform(self, step: Send | Pause) -> Outcome:
        if isinstance(step, Pause):
            log_retry(step)
            await asyncio.sleep(step.seconds)
            return None
        try:
            return response_from_httpx(await self._http.send(self._request_builder.build(step)))
        except httpx.TransportError as error:
            return no_response_from(error)


class ReturningMethod(Generic[P, T]):
    """A coroutine method that returns the result of a call."""

    def __init__(self, call: Callable[Concatenate[RetryPolicy, P], Steps[T]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(self, group: "AsyncMethodGroup", owner: type) -> Callable[P, Coroutine[Any, Any, T]]:
        def method(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            return group.runner.run(self._call(group.runner.policy, *args, **kwargs))

        return copy_signature(method, self._call)


class IteratingMethod(Generic[P, T]):
    """A method that iterates over the values of a call."""

    def __init__(self, call: Callable[Concatenate[RetryPolicy, P], Values[T]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(self, group: "AsyncMethodGroup", owner: type) -> Callable[P, AsyncGenerator[T, None]]:
        def method(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
            return group.runner.iterate(self._call(group.runner.policy, *args, **kwargs))

        return copy_signature(method, self._call)


class AsyncMethodGroup:
    """A group of methods that share a step runner."""

    def __init__(self, runner: AsyncStepRunner) -> None:
        self.runner = runner


class AsyncQueries(AsyncMethodGroup):
    """Queries by latest event, time and id."""

    latest = ReturningMethod(queries.latest)
    timeseries = IteratingMethod(queries.timeseries)
    server = IteratingMethod(queries.server)


class AsyncObservers(AsyncMethodGroup):
    """Observers: notification rules."""

    list = ReturningMethod(observers.observers)
    get = ReturningMethod(observers.get)
    put = ReturningMethod(observers.put)
    delete = ReturningMethod(observers.delete)
    snooze = ReturningMethod(observers.snooze)
    failures = IteratingMethod(observers.failures)
    deliveries = IteratingMethod(observers.deliveries)
    deliveries_of = IteratingMethod(observers.deliveries_of)
    retry = ReturningMethod(observers.retry)
    replay = IteratingMethod(observers.replay)


class AsyncInbox(AsyncMethodGroup):
    """The inbox of a user."""

    newest = ReturningMethod(inbox.newest)
    unread = ReturningMethod(inbox.unread)
    mark_read = ReturningMethod(inbox.mark_read)


class AsyncAlerts(AsyncMethodGroup):
    """Silences and acknowledgements."""

    silence = ReturningMethod(alerts.silence)
    silences = ReturningMethod(alerts.silences)
    end_silence = ReturningMethod(alerts.end_silence)
    acknowledge = ReturningMethod(alerts.acknowledge)
    acknowledgements = ReturningMethod(alerts.acknowledgements)


class AsyncExpectations(AsyncMethodGroup):
    """Expectations: when jobs should run, and whether they do."""

    list = ReturningMethod(expectations.expectations)
    get = ReturningMethod(expectations.get)
    put = ReturningMethod(expectations.put)
    delete = ReturningMethod(expectations.delete)


class AsyncReports(AsyncMethodGroup):
    """Reports on the event history."""

    list = ReturningMethod(installation.reports)
    link = ReturningMethod(installation.link)


class AsyncAnnals(AsyncMethodGroup):
    """Client for publishing, following and querying events. Use it in an `async with` block, or close it."""

    publish = ReturningMethod(events.publish)
    newest = ReturningMethod(events.newest)
    follow = IteratingMethod(events.follow)
    snapshot = ReturningMethod(objects.snapshot)
    job_types = IteratingMethod(objects.job_types)
    job_type = ReturningMethod(objects.job_type)
    system = ReturningMethod(installation.system)
    me = ReturningMethod(installation.me)

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        organization: str | None = None,
        deadline_s: float = 60.0,
        retry_policy: RetryPolicy | None = None,
        **http: Any,
    ) -> None:
        """`deadline_s` limits a call including retries. `http` are options of `httpx.AsyncClient`."""
        request_builder = RequestBuilder(url, token, organization)
        super().__init__(
            AsyncStepRunner(request_builder, retry_policy or RetryPolicy(deadline_s), httpx.AsyncClient(**http))
        )
        self.query = AsyncQueries(self.runner)
        self.observers = AsyncObservers(self.runner)
        self.inbox = AsyncInbox(self.runner)
        self.alerts = AsyncAlerts(self.runner)
        self.expectations = AsyncExpectations(self.runner)
        self.reports = AsyncReports(self.runner)

    async def close(self) -> None:
        """Close all connections."""
        await self.runner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
