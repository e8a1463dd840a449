"""Logs, metrics and traces of a Lambda function. Only this module uses Powertools.

Telemetry contains no payloads, tokens, headers or addresses. A successful request has no log line of its own. Its
metrics are one line in CloudWatch's embedded metric format (EMF).

Threads: an invocation may measure from several threads. `MetricCollector._lock` protects its values.
"""

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Final, TextIO, TypeVar, cast

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider
from aws_lambda_powertools.tracing import Tracer

from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.domain.errors import Refused
from chalicelib.domain.redaction import safe_description, safe_message

NAMESPACE: Final = "Annals"
SERVICE: Final = "annals"
AGE_METRICS: Final = frozenset({"ProjectLag", "ObserveLag"})
"""Metrics in milliseconds. Of several values in an invocation the largest is reported. Other metrics are summed."""

_compact_json = partial(json.dumps, default=str, separators=(",", ":"))
_log = logging.getLogger(SERVICE)

T = TypeVar("T")
ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class FunctionTelemetry:
    """Telemetry of one Lambda function, which handles one invocation at a time."""

    def __init__(self, function: str, stack: str, tracing: bool) -> None:
        self.measure = MetricCollector({"stack": stack} if stack else {})
        self._logger = Logger(
            service=SERVICE, logger_handler=_Stdout(), logger_formatter=_formatter(), function_name=function
        )
        self._tracer = XRayTracer(function) if tracing else None
        self._is_cold = True

    def run_invocation(self, work: Callable[[], T], correlation_id: str, organization: str | None) -> T:
        """Run one invocation and write its metrics.

        Lambda logs the exceptions of a function, so they are replaced by exceptions without user data.
        """
        self._logger.append_keys(correlation_id=correlation_id, cold_start=self._is_cold)
        self._is_cold = False
        try:
            with nullcontext() if self._tracer is None else self._tracer.invocation():
                self.set_organization(organization)
                return work()
        except Exception as failure:
            raise _redact(failure) from None
        finally:
            self._logger.remove_keys(["correlation_id", "organization"])
            self.measure.flush()

    def set_organization(self, organization: str | None) -> None:
        """Add the organization to the log lines and the trace of the current invocation."""
        self._logger.append_keys(organization=organization)
        if self._tracer is not None and organization is not None:
            self._tracer.annotate("organization", organization)

    def trace_client(self, service: str, client: ServiceClient) -> ServiceClient:
        """Return `client` with tracing, if it is enabled."""
        return client if self._tracer is None else TracedClient(service, client, self._tracer)


class MetricCollector:
    """Implements `Measure`: collects the metrics of an invocation. Thread-safe.

    All metrics have the common dimensions, so that the stages of an account are separate.
    """

    def __init__(self, common_dimensions: Mapping[str, str] | None = None) -> None:
        self._common_dimensions = dict(common_dimensions or {})
        self._lock = threading.Lock()
        self._values: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
        # A service name would become a dimension of all metrics.
        self._metrics = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service="")

    def __call__(self, name: str, value: float = 1, **dimensions: str) -> None:
        with self._lock:
            values = self._values.setdefault(tuple(dimensions.items()), {})
            if name in AGE_METRICS:
                values[name] = max(value, values.get(name, 0))
            else:
                values[name] = values.get(name, 0) + value

    def flush(self) -> None:
        """Write one line for each set of dimensions with values since the last flush."""
        with self._lock:
            collected, self._values = self._values, {}
        for dimensions, values in collected.items():
            sys.stdout.write(f"{_compact_json(self._emf_document(dict(dimensions), values))}\n")

    def _emf_document(self, dimensions: dict[str, str], values: dict[str, float]) -> dict[str, Any]:
        metrics = self._metrics
        metrics.clear_metrics()
        for dimension, text in self._common_dimensions.items():
            metrics.add_dimension(dimension, text)
        if dimensions:
            metrics.add_dimensions(**self._common_dimensions, **dimensions)
        for name, value in values.items():
            metrics.add_metric(name, "Milliseconds" if name in AGE_METRICS else "Count", value)
        return {**metrics.serialize_metric_set()}


class XRayTracer:
    """Sends invocations and their calls to AWS to X-Ray. Of exceptions it sends the type and the stack, no message."""

    def __init__(self, function: str) -> None:
        from aws_xray_sdk.core import patch  # type: ignore[import-untyped]  # noqa: PLC0415  (only with tracing)
        from wrapt import register_post_import_hook  # noqa: PLC0415

        self._function = function
        self._recorder = cast(Any, Tracer(service=SERVICE, auto_patch=False).provider)
        # The SDK is imported later, if at all. Its calls are traced from then on.
        register_post_import_hook(lambda _: patch(("botocore",)), "botocore.client")
        emitter = self._recorder.emitter
        send = emitter.send_entity
        emitter.send_entity = lambda entity: send(_remove_messages(entity))

    @contextmanager
    def invocation(self) -> Iterator[None]:
        """Record the block as one subsegment."""
        with self._recorder.in_subsegment(f"## {self._function}"):
            self.annotate("function", self._function)
            yield

    def annotate(self, name: str, value: str) -> None:
        """Add an annotation to the current subsegment, by which traces can be found."""
        self._recorder.put_annotation(name, value)

    @contextmanager
    def call(self, service: str, operation: str) -> Iterator[None]:
        """Record the block as a call to AWS."""
        with self._recorder.in_subsegment(service, namespace="aws") as subsegment:
            subsegment.set_aws({"operation": operation})
            yield


class TracedClient:
    """A `ServiceClient` whose calls are traced."""

    def __init__(self, service: str, client: ServiceClient, tracer: XRayTracer) -> None:
        self._service = service
        self._client = client
        self._tracer = tracer

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        with self._tracer.call(self._service, operation):
            return self._client.call(operation, params)


class _Formatter(LambdaPowertoolsFormatter):
    """Formats log lines as JSON. Of exceptions and their causes it logs types and stacks, but no user data."""

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802  (overrides a method of logging)
        failure, descriptions = ei[1], []
        while failure is not None:
            frames = traceback.format_tb(failure.__traceback__)
            descriptions.append("".join([*frames, safe_description(failure)]))
            failure = failure.__cause__ or (None if failure.__suppress_context__ else failure.__context__)
        return "\n\n".join(reversed(descriptions))


def _formatter() -> _Formatter:
    # Powertools' own stack trace and the notes of exceptions would contain user data.
    return _Formatter(json_serializer=_compact_json, utc=True, serialize_stacktrace=False, exception_notes=None)


class _Stdout(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stdout`, which may be replaced at run time."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stdout


def _redact(failure: Exception) -> Exception:
    """Return an exception with the same type name and a safe message. Log unexpected exceptions."""
    if not isinstance(failure, Refused):
        _log.error("the function failed", exc_info=failure)
    redacted_type: type[Exception] = type(type(failure).__name__, (Exception,), {})
    return redacted_type(safe_message(failure))


def _remove_messages(entity: Any) -> Any:
    """Remove the exception messages of an X-Ray segment and all its subsegments."""
    cause = getattr(entity, "cause", None)
    for exception in cause.get("exceptions", ()) if isinstance(cause, dict) else ():
        exception.message = None
    for subsegment in entity.subsegments:
        _remove_messages(subsegment)
    return entity
