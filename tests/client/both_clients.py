"""Both clients behind one blocking interface, so that one suite tests both."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast

from annals_client import Annals, AsyncAnnals
from annals_client.sans_io import RetryPolicy

ClientKind = Literal["sync", "async"]
ClientFactory = Callable[..., Annals]
"""Creates a client from a URL and a token."""


@contextmanager
def client_factory(kind: ClientKind) -> Iterator[ClientFactory]:
    """A factory for clients of one kind. They are closed on exit."""
    if kind == "sync":
        sync_clients: list[Annals] = []

        def create_sync(url: str, token: str, **options: Any) -> Annals:
            sync_clients.append(Annals(url, token, **{"trust_env": False, **options}))
            return sync_clients[-1]

        yield create_sync
        for client in sync_clients:
            client.close()
        return
    with asyncio.Runner() as runner:
        async_clients: list[AsyncAnnals] = []

        def create_async(url: str, token: str, **options: Any) -> Annals:
            async_clients.append(AsyncAnnals(url, token, **{"trust_env": False, **options}))
            return cast(Annals, BlockingProxy(async_clients[-1], runner))

        yield create_async
        for async_client in async_clients:
            runner.run(async_client.close())


class BlockingProxy:
    """Wraps an asynchronous object. Its methods block until they have a result."""

    def __init__(self, target: object, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return BlockingProxy(attribute, self._runner)
        return lambda *args, **options: self._wait(attribute(*args, **options))

    def _wait(self, result: Any) -> Any:
        return self._runner.run(result) if inspect.iscoroutine(result) else self._iterate(result)

    def _iterate(self, values: AsyncIterator[Any]) -> Iterator[Any]:
        async def next_value() -> Any:
            return await anext(values, END)

        while (value := self._runner.run(next_value())) is not END:
            yield value


END = object()


def immediate_retries(**options: Any) -> RetryPolicy:
    """A retry policy without pauses."""
    return RetryPolicy(**{"jitter": lambda _: 0.0, **options})
