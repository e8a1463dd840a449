"""Observability: the logs, measures and traces of a Lambda function. Nothing else here knows Powertools.

What is told is about Annals: no payload, no token, no header, no address. A request that went well has no line of its
own in the log; what is measured while it is handled is one line in CloudWatch's embedded metric format.
"""

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Final, TextIO, TypeVar, cast

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider
from aws_lambda_powertools.tracing import Tracer

from chalicelib.adapters.aws.protocol import Calls
from chalicelib.domain.errors import Refused
from chalicelib.domain.redaction import described, words

NAMESPACE: Final = "Annals"
SERVICE: Final = "annals"
AGES: Final = frozenset({"ProjectLag", "ObserveLag"})
"""What is measured in milliseconds, and of which the greatest counts; all else is counted."""

_compact = partial(json.dumps, default=str, separators=(",", ":"))
_log = logging.getLogger(SERVICE)

T = TypeVar("T")
ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Watch:
    """Watches the invocations of one function, one after the other."""

    def __init__(self, function: str, tracing: bool) -> None:
        self.measure = Measurements()
        self._logger = Logger(
            service=SERVICE, logger_handler=_Stdout(), logger_formatter=_formatter(), function_name=function
        )
        self._tracing = Tracing(function) if tracing else None
        self._is_cold = True

    def during(
        self,
        work: Callable[[], T],
        correlation_id: str,
        organization: str | None,
        refusal: type[Exception] | None = None,
    ) -> T:
        """Do the work of one invocation, and tell what was measured meanwhile.

        Lambda writes down what a function raises. So what comes out of here quotes nobody, unless it is a `refusal`.
        """
        self._logger.append_keys(correlation_id=correlation_id, organization=organization, cold_start=self._is_cold)
        self._is_cold = False
        try:
            with self._traced(organization):
                return work()
        except Exception as failure:
            if refusal is not None and isinstance(failure, refusal):
                raise
            raise _told(failure) from None
        finally:
            self.measure.tell()

    def traced(self, service: str, client: Calls) -> Calls:
        """The client of a service, with its calls told to X-Ray."""
        return client if self._tracing is None else Traced(service, client, self._tracing)

    def _traced(self, organization: str | None) -> AbstractContextManager[None]:
        return nullcontext() if self._tracing is None else self._tracing.invocation(organization)


class Measurements:
    """The port `Measure`: collects what is measured during an invocation; threads may share it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._values: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
        # Without a service: it would be a dimension of everything.
        self._metrics = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service="")

    def __call__(self, name: str, value: float = 1, **dimensions: str) -> None:
        """So much of `name`; with dimensions it counts as one of its kind, too."""
        with self._mutex:
            values = self._values.setdefault(tuple(dimensions.items()), {})
            if name in AGES:
                values[name] = max(value, values.get(name, 0))
            else:
                values[name] = values.get(name, 0) + value

    def tell(self) -> None:
        """Write what was measured since the last time: a line for each set of dimensions, none if there is nothing."""
        with self._mutex:
            collected, self._values = self._values, {}
        for dimensions, values in collected.items():
            sys.stdout.write(f"{_compact(self._told(dict(dimensions), values))}\n")

    def _told(self, dimensions: dict[str, str], values: dict[str, float]) -> dict[str, Any]:
        metrics = self._metrics
        metrics.clear_metrics()
        if dimensions:
            metrics.add_dimensions(**dimensions)
        for name, value in values.items():
            metrics.add_metric(name, "Milliseconds" if name in AGES else "Count", value)
        return {**metrics.serialize_metric_set()}


class Tracing:
    """Tells X-Ray of invocations and of the calls to AWS within; of what fails only the type and the place."""

    def __init__(self, function: str) -> None:
        from aws_xray_sdk.core import patch  # type: ignore[import-untyped]  # noqa: PLC0415  (only who is traced waits)
        from wrapt import register_post_import_hook  # noqa: PLC0415

        self._function = function
        self._recorder = cast(Any, Tracer(service=SERVICE, auto_patch=False).provider)
        # Who calls by the SDK of AWS loads it later, if at all; its calls are told then, too.
        register_post_import_hook(lambda _: patch(("botocore",)), "botocore.client")
        emitter = self._recorder.emitter
        send = emitter.send_entity
        emitter.send_entity = lambda entity: send(_without_words(entity))

    @contextmanager
    def invocation(self, organization: str | None) -> Iterator[None]:
        """What is done within is one subsegment."""
        with self._recorder.in_subsegment(f"## {self._function}") as subsegment:
            subsegment.put_annotation("function", self._function)
            if organization is not None:
                subsegment.put_annotation("organization", organization)
            yield

    @contextmanager
    def call(self, service: str, operation: str) -> Iterator[None]:
        """What is done within is a call of AWS."""
        with self._recorder.in_subsegment(service, namespace="aws") as subsegment:
            subsegment.set_aws({"operation": operation})
            yield


class Traced:
    """The port `Calls`, with X-Ray told of each."""

    def __init__(self, service: str, client: Calls, tracing: Tracing) -> None:
        self._service = service
        self._client = client
        self._tracing = tracing

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """What the service answers."""
        with self._tracing.call(self._service, operation):
            return self._client.call(operation, params)


class _Formatter(LambdaPowertoolsFormatter):
    """Lines of JSON that quote nobody: of an exception the kinds and places, with those that it came from."""

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802  (logging calls it so)
        failure, told = ei[1], []
        while failure is not None:
            frames = traceback.format_tb(failure.__traceback__)
            told.append("".join([*frames, described(failure)]))
            failure = failure.__cause__ or (None if failure.__suppress_context__ else failure.__context__)
        return "\n\n".join(reversed(told))


def _formatter() -> _Formatter:
    # Its own stack trace and the notes of exceptions hold their words.
    return _Formatter(json_serializer=_compact, utc=True, serialize_stacktrace=False, exception_notes=None)


class _Stdout(logging.StreamHandler[TextIO]):
    """Writes to where standard output goes now."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Standard output."""
        return sys.stdout


def _told(failure: Exception) -> Exception:
    """An exception of the same name with no words but ours; what nobody expected is logged."""
    if not isinstance(failure, Refused):
        _log.error("the function failed", exc_info=failure)
    named: type[Exception] = type(type(failure).__name__, (Exception,), {})
    return named(words(failure))


def _without_words(entity: Any) -> Any:
    """A segment or subsegment of X-Ray whose exceptions, and those within, have no messages."""
    cause = getattr(entity, "cause", None)
    for exception in cause.get("exceptions", ()) if isinstance(cause, dict) else ():
        exception.message = None
    for within in entity.subsegments:
        _without_words(within)
    return entity
