"""The Jinja2 environments for templates and observer filters.

Both reach nothing but their scope. Everything that they create is charged to a budget (see `limits`): output, loop
iterations, operations, calls, filters, and composed values. Where Jinja2 has no hook for that, `metering` inserts one
into the compiled template.
"""

import threading
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, NoReturn

from jinja2 import ChainableUndefined, StrictUndefined, Undefined, pass_context
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Cycler, Joiner, Namespace

from chalicelib.adapters.templates import costs, filters
from chalicelib.adapters.templates.limits import Budget, LimitExceeded, Limits
from chalicelib.adapters.templates.metering import CHARGE, CHARGE_VALUE, insert_metering


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ALLOWED_FILTERS: Final = _names("""
    abs capitalize count d default dictsort e escape filesizeformat first float forceescape groupby indent int items
    join last length list lower map max min reject rejectattr replace reverse round safe select selectattr sort
    string sum title trim truncate unique upper urlencode wordcount
""")
"""Jinja2 filters whose result is not much larger than their input, or whose cost `costs` can predict."""
_ALLOWED_METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: _names("""
        capitalize casefold count endswith find index isalnum isalpha isdigit islower isnumeric isspace isupper join
        lower lstrip partition removeprefix removesuffix replace rfind rpartition rsplit rstrip split splitlines
        startswith strip swapcase title upper
    """),
    dict: _names("get items keys values"),
    list: _names("count index"),
    tuple: _names("count index"),
    LoopContext: _names("cycle changed"),
    Cycler: _names("next reset"),
}
_CALLABLE_TYPES = (Macro, LoopContext, BlockReference, Joiner, Undefined)
_PRINTABLE_TYPES = (str, int, float, list, tuple, dict, Undefined)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of templates. Threads may share it, because each thread has its own budget."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self, limits: Limits, **options: Any) -> None:
        # The optimizer would evaluate constant expressions at compile time, without a budget.
        super().__init__(undefined=StrictUndefined, finalize=self._check_printable, optimized=False, **options)
        self._limits = limits
        self._thread = threading.local()
        own: dict[str, Any] = {**filters.FILTERS, "format": self._format}
        allowed: dict[str, Any] = {name: FILTERS[name] for name in _ALLOWED_FILTERS} | own
        self.filters = {name: self._meter(name, function) for name, function in allowed.items()}
        self.filters |= {CHARGE: self._charge, CHARGE_VALUE: self._charge_value}
        tests: dict[str, Any] = dict(TESTS)
        self.tests = tests | {"in": self._meter("in", tests["in"])}
        self.globals = {"range": self._range, "dict": dict, "namespace": _Namespace, "cycler": Cycler, "joiner": Joiner}
        self._allowed_globals = tuple(self.globals.values())

    @property
    def _budget(self) -> Budget:
        budget: Budget = self._thread.budget
        return budget

    @contextmanager
    def new_budget(self) -> Iterator[None]:
        """Give this thread a budget for one rendering."""
        self._thread.budget = Budget(self._limits)
        try:
            yield
        finally:
            del self._thread.budget

    def compile(self, source: Any, *args: Any, **options: Any) -> Any:
        tree = self.parse(source, *args[:2]) if isinstance(source, str) else source
        return super().compile(insert_metering(tree, self), *args, **options)

    def is_safe_callable(self, obj: Any) -> bool:
        """Allow macros, blocks, our globals and the listed methods."""
        if isinstance(obj, _CALLABLE_TYPES) or any(obj is allowed for allowed in self._allowed_globals):
            return True
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", None)
        return any(isinstance(owner, type_) and name in names for type_, names in _ALLOWED_METHODS.items())

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call `obj`, charging its arguments and its result."""
        if not self.is_safe_callable(obj):
            raise SecurityError(f"{_describe(obj)} may not be called")
        named = {name: value for name, value in kwargs.items() if not name.startswith("_")}
        self._budget.charge_value((args, named))
        predict_cost = costs.METHOD_COSTS.get(getattr(obj, "__name__", ""))
        if predict_cost and isinstance(getattr(obj, "__self__", None), str):
            self._budget.charge(predict_cost(obj.__self__, *args, **named))
        return self._charge_result(context.call(obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Execute the operation, charging its result in advance."""
        self._budget.charge(costs.operation_cost(operator, left, right, self._limits.value_cost))
        return super().call_binop(context, operator, left, right)

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        """Refuse at once, not only when the attribute is used."""
        raise SecurityError(f"'{attribute}' of a {type(obj).__name__} is not accessible")

    @pass_context
    def _check_printable(self, _context: Context, value: Any) -> Any:
        """Print nothing for null, and refuse values such as a method that the template forgot to call."""
        if value is None:
            return ""
        if not isinstance(value, _PRINTABLE_TYPES):
            raise TypeError(f"{_describe(value)} cannot be printed")
        self._budget.charge_value(value)
        return value

    @pass_context
    def _charge(self, _context: Context, size: int) -> bool:
        self._budget.charge(size)
        return True

    @pass_context
    def _charge_value(self, _context: Context, value: Any) -> Any:
        return self._charge_result(value)

    def _charge_result(self, value: Any) -> Any:
        """Charge the value and return it. Iterators are converted to lists, to know their size."""
        if not isinstance(value, _PRINTABLE_TYPES) and isinstance(value, Iterator | KeysView | ValuesView | ItemsView):
            value = list(value)
        self._budget.charge_value(value)
        return value

    def _meter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a filter or test so that it charges its result."""
        predict_cost = costs.FILTER_COSTS.get(name)
        first = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def metered(*args: Any, **kwargs: Any) -> Any:
            budget = self._budget
            if predict_cost:
                budget.charge(predict_cost(*args[first:], **kwargs))
            result = function(*args, **kwargs)
            if isinstance(result, str):
                budget.charge(len(result))
                return result
            # An argument that is returned unchanged, as by `default`, was charged before or is part of the scope.
            return result if any(result is argument for argument in args) else self._charge_result(result)

        return metered

    def _format(self, text: Any, *args: Any) -> Any:
        self._budget.charge(costs.operation_cost("%", str(text), args, self._limits.value_cost))
        return str(text) % args

    def _range(self, *args: int) -> range:
        try:
            self._budget.charge_value(numbers := range(*args))
        except OverflowError as error:
            raise LimitExceeded("makes a range that is too long") from error
        return numbers


class FilterSandbox(Sandbox):
    """The environment of observer filters. A field that the event lacks is not an error, it just does not match."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return _as_missing_field(super().getattr(obj, attribute), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return _as_missing_field(super().getitem(obj, argument), argument)


class _MissingField(ChainableUndefined):
    """A missing field. It contains nothing, and every comparison with it is false."""

    def _compare(self, *_args: Any, **_kwargs: Any) -> Any:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _compare


class _Namespace(Namespace):
    """A namespace whose text does not include its contents, because they may include the namespace itself."""

    def __repr__(self) -> str:
        return "<namespace>"


def _as_missing_field(value: Any, name: object) -> Any:
    return _MissingField(name=str(name)) if type(value) is StrictUndefined else value


def _describe(value: object) -> str:
    """Describe a value that templates may not use, for an error message."""
    name = getattr(value, "__name__", None)
    return f"'{name}'" if isinstance(name, str) else f"a {type(value).__name__.strip('_').lower()}"
