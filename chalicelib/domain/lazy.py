"""Values that are computed on first use and cached on their object, without locks."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, Self, TypeVar, overload

S = TypeVar("S")
T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801  (used like `property`)
    """A `functools.cached_property` without a lock, which would cost more than most computations.

    Concurrent readers may each compute the value, so the computation must be pure.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


def cached_on_instance(compute: Callable[[S], T]) -> Callable[[S], T]:
    """Cache a function of one object in that object's `__dict__`: a `lazy_property` defined outside the class."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def cached(instance: S) -> T:
        cache = instance.__dict__
        if name not in cache:
            cache[name] = compute(instance)
        value: T = cache[name]
        return value

    return cached
