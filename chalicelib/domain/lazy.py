"""What is worked out once."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, Self, TypeVar, overload

S = TypeVar("S")
T = TypeVar("T")


class once(Generic[T]):  # noqa: N801  (used like `property`)
    """A property worked out when first asked for, as by `functools.cached_property`, whose lock takes longer than most.

    Whoever asks at the same time may work it out too; for that it must not matter who was first.
    """

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._work(instance)
        return value


def once_for_each(work: Callable[[S], T]) -> Callable[[S], T]:
    """A function of one thing that is worked out once for each, and kept with it: `once`, from outside its class."""
    name = f"{work.__module__}.{work.__qualname__}"

    @wraps(work)
    def known(instance: S) -> T:
        kept = instance.__dict__
        if name not in kept:
            kept[name] = work(instance)
        found: T = kept[name]
        return found

    return known
