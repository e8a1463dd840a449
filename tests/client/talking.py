"""Both clients in one shape, so that one suite tests both."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast

from annals_client import Annals, AsyncAnnals
from annals_client.sans_io import Manners

Kind = Literal["sync", "async"]
Talk = Callable[..., Annals]
"""Makes a client of an address and a token."""


@contextmanager
def talking(kind: Kind) -> Iterator[Talk]:
    """A maker of clients of one kind; they are closed in the end."""
    if kind == "sync":
        made: list[Annals] = []

        def threaded(url: str, token: str, **options: Any) -> Annals:
            made.append(Annals(url, token, **{"trust_env": False, **options}))
            return made[-1]

        yield threaded
        for client in made:
            client.close()
        return
    with asyncio.Runner() as runner:
        clients: list[AsyncAnnals] = []

        def looped(url: str, token: str, **options: Any) -> Annals:
            clients.append(AsyncAnnals(url, token, **{"trust_env": False, **options}))
            return cast(Annals, InLoop(clients[-1], runner))

        yield looped
        for one in clients:
            runner.run(one.close())


class InLoop:
    """An asynchronous thing whose methods are waited for."""

    def __init__(self, target: object, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return InLoop(found, self._runner)
        return lambda *args, **options: self._waited(found(*args, **options))

    def _waited(self, called: Any) -> Any:
        return self._runner.run(called) if inspect.iscoroutine(called) else self._iterated(called)

    def _iterated(self, values: AsyncIterator[Any]) -> Iterator[Any]:
        async def following() -> Any:
            return await anext(values, END)

        while (value := self._runner.run(following())) is not END:
            yield value


END = object()


def hasty(**more: Any) -> Manners:
    """Manners of a client that never pauses longer than it has to."""
    return Manners(**{"jittered": lambda _: 0.0, **more})
