"""The Jinja2 in which templates and filters run: they reach nothing but their scope, and pay for all they make.

A rendering pays (see `allowance`) for what is written, for every round of a loop, every operation, call and filter,
and for every list, dict and text put together. Where Jinja2 offers no place to ask for that, one is added to the
template when it is compiled.
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

from chalicelib.adapters.templates import filters, sizes
from chalicelib.adapters.templates.limits import Allowance, Limits, TooMuch
from chalicelib.adapters.templates.metering import PAY, WEIGH, with_payments


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEPT: Final = _names("""
    abs capitalize count d default dictsort e escape filesizeformat first float forceescape groupby indent int items
    join last length list lower map max min reject rejectattr replace reverse round safe select selectattr sort
    string sum title trim truncate unique upper urlencode wordcount
""")
"""Jinja2's filters whose outcome is not much larger than what goes in, or of which `sizes` knows how large it is."""
_METHODS: Final[Mapping[type, frozenset[str]]] = {
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
"""What may be called of each type of value."""
_CALLABLE = (Macro, LoopContext, BlockReference, Joiner, Undefined)
_WRITABLE = (str, int, float, list, tuple, dict, Undefined)


class Sandbox(ImmutableSandboxedEnvironment):
    """Where templates are compiled and run."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self, limits: Limits, **options: Any) -> None:
        # The optimizer would run what it can, before anybody pays, and again at each level of what is nested.
        super().__init__(undefined=StrictUndefined, finalize=self._written, optimized=False, **options)
        self._limits = limits
        self._thread = threading.local()
        own: dict[str, Any] = {**filters.FILTERS, "format": self._format}
        known: dict[str, Any] = {name: FILTERS[name] for name in _KEPT} | own
        self.filters = {name: self._paid(name, function) for name, function in known.items()}
        self.filters |= {PAY: self._pay, WEIGH: self._weigh}
        tests: dict[str, Any] = dict(TESTS)
        self.tests = tests | {"in": self._paid("in", tests["in"])}
        self.globals = {"range": self._range, "dict": dict, "namespace": _Namespace, "cycler": Cycler, "joiner": Joiner}
        self._makers = tuple(self.globals.values())

    @contextmanager
    def paying(self) -> Iterator[None]:
        """Within, this thread may run one template, and take what the limits say."""
        self._thread.allowance = Allowance(self._limits)
        try:
            yield
        finally:
            del self._thread.allowance

    def compile(self, source: Any, *args: Any, **options: Any) -> Any:
        """The template's code, with the places where it pays."""
        tree = self.parse(source, *args[:2]) if isinstance(source, str) else source
        return super().compile(with_payments(tree, self), *args, **options)

    def is_safe_callable(self, obj: Any) -> bool:
        """Tell whether a template may call it: macros and blocks, what makes values, and the known methods."""
        if isinstance(obj, _CALLABLE) or any(obj is maker for maker in self._makers):
            return True
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", None)
        return any(isinstance(owner, known) and name in names for known, names in _METHODS.items())

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call it, paying for what it is given and for what comes of it."""
        if not self.is_safe_callable(obj):
            raise SecurityError(f"{_name(obj)} may not be called")
        given = {name: value for name, value in kwargs.items() if not name.startswith("_")}
        self._thread.allowance.weigh((args, given))
        size = sizes.METHODS.get(getattr(obj, "__name__", ""))
        if size and isinstance(getattr(obj, "__self__", None), str):
            self._thread.allowance.spend(size(obj.__self__, *args, **given))
        return self._weighed(context.call(obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Do the operation, paying for what is going to come of it."""
        self._thread.allowance.spend(sizes.of_operation(operator, left, right, self._limits.value))
        return super().call_binop(context, operator, left, right)

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        """What is out of reach is so at once, not only when it is used."""
        raise SecurityError(f"'{attribute}' of a {type(obj).__name__} is out of reach")

    @pass_context
    def _written(self, _context: Context, value: Any) -> Any:
        """What is written of a value: nothing of null, and no such thing as a method that somebody forgot to call."""
        if value is None:
            return ""
        if not isinstance(value, _WRITABLE):
            raise TypeError(f"{_name(value)} cannot be written")
        self._thread.allowance.weigh(value)
        return value

    @pass_context
    def _pay(self, _context: Context, size: int) -> bool:
        self._thread.allowance.spend(size)
        return True

    @pass_context
    def _weigh(self, _context: Context, value: Any) -> Any:
        return self._weighed(value)

    def _weighed(self, value: Any) -> Any:
        """The value, paid for; a list if it is something to be looked at item by item."""
        if not isinstance(value, _WRITABLE) and isinstance(value, Iterator | KeysView | ValuesView | ItemsView):
            value = list(value)
        self._thread.allowance.weigh(value)
        return value

    def _paid(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The filter or test, for which is paid."""
        size = sizes.FILTERS.get(name)
        first = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def filtered(*args: Any, **kwargs: Any) -> Any:
            allowance: Allowance = self._thread.allowance
            if size:
                allowance.spend(size(*args[first:], **kwargs))
            result = function(*args, **kwargs)
            if isinstance(result, str):
                allowance.spend(len(result))
                return result
            # What was there before, such as what has no need of its default, was paid for or is of the scope.
            return result if any(result is each for each in args) else self._weighed(result)

        return filtered

    def _format(self, text: Any, *args: Any) -> Any:
        self._thread.allowance.spend(sizes.of_operation("%", str(text), args, self._limits.value))
        return str(text) % args

    def _range(self, *args: int) -> range:
        try:
            self._thread.allowance.weigh(numbers := range(*args))
        except OverflowError as failure:
            raise TooMuch("makes a range without end") from failure
        return numbers


class FilterSandbox(Sandbox):
    """Where an observer's filter runs: a field that an event does not have is no error there, it only matches not."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """As everywhere, but what is not there is absent."""
        return _absent(super().getattr(obj, attribute), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """As everywhere, but what is not there is absent."""
        return _absent(super().getitem(obj, argument), argument)


class _Absent(ChainableUndefined):
    """A field that is not there: nothing is in it, and it is neither more nor less than anything."""

    def _no(self, *_others: Any, **_named: Any) -> Any:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _no


class _Namespace(Namespace):
    """A namespace that does not tell what is in it, which may be itself."""

    def __repr__(self) -> str:
        return "<namespace>"


def _absent(value: Any, name: object) -> Any:
    return _Absent(name=str(name)) if type(value) is StrictUndefined else value


def _name(value: object) -> str:
    """How an error calls a value that is none to templates."""
    name = getattr(value, "__name__", None)
    return f"'{name}'" if isinstance(name, str) else f"a {type(value).__name__.strip('_').lower()}"
