"""AWS operations: those that functions were observed to call, and those that the code names."""

import ast
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import botocore.session
from botocore import xform_name

from chalicelib.adapters.aws.client import DYNAMODB, EVENTBRIDGE, GLUE, SQS
from infra.deploy.build.package import ROOT
from tests.adapters.aws.endpoints import ForwardingHandler, serve
from tests.deploy.permissions import Permission, Place, required_permissions

CODE = ROOT / "chalicelib"
FOR_LOCAL_ENDPOINTS = CODE / "adapters" / "dynamodb" / "tables.py"
"""Creates tables for emulators. No deployed function calls it."""
SERVICES = (DYNAMODB, SQS, GLUE, EVENTBRIDGE)
"""Services that are called without the SDK."""
HIDDEN_CALLS = ("get_waiter", "get_paginator")
"""Client methods that call operations under other names."""


class Recorder:
    """Records the operations and permissions that each function uses."""

    def __init__(self, place: Place) -> None:
        self.used: dict[str, set[Permission]] = defaultdict(set)
        self.operations: set[str] = set()
        self._place = place
        self._roles: tuple[str, ...] = ()
        self._refused: str | None = None

    def attach(self, session: Any) -> None:
        """Record the calls of all SDK clients of this session."""
        session.events.register("provide-client-params", self._on_call)

    @contextmanager
    def endpoint(self, target: str) -> Iterator[str]:
        """An endpoint that records JSON calls and forwards all calls to `target`."""
        recorder = self

        class RecordingProxy(ForwardingHandler):
            def refuses(self) -> bool:
                return self.headers.get("X-Amz-Target", "").rpartition(".")[2] == recorder._refused

            def on_request(self, body: bytes) -> None:
                operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
                if operation:
                    scope = self.headers["Authorization"].partition("Credential=")[2].partition(",")[0]
                    recorder._record(scope.split("/")[3], operation, json.loads(body))

        RecordingProxy.target = target
        with serve(RecordingProxy) as address:
            yield address

    @contextmanager
    def acting(self, *roles: str) -> Iterator[None]:
        """Attribute all calls within the block to these functions."""
        self._roles = roles
        try:
            yield
        finally:
            self._roles = ()

    @contextmanager
    def refusing(self, operation: str) -> Iterator[None]:
        """Refuse all calls of this operation within the block."""
        self._refused = operation
        try:
            yield
        finally:
            self._refused = None

    def _on_call(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        self._record(model.service_model.signing_name, model.name, params)

    def _record(self, service: str, operation: str, params: Mapping[str, Any]) -> None:
        if self._roles:
            self.operations.add(f"{service}:{operation}")
        for role in self._roles:
            self.used[role].update(required_permissions(service, operation, params, self._place))


def operations_in_code() -> set[str]:
    """Every operation that the code names. May include names that are not operations of AWS in that place."""
    nodes = [node for path in sorted(CODE.rglob("*.py")) if path != FOR_LOCAL_ENDPOINTS for node in _nodes(path)]
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {name for node in nodes for name in _presigned(node)}
    operations = _operations({service for node in nodes for service in _services(node)})
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    unsigned_calls = {
        f"{service.signing_name}:{name}" for service in SERVICES for name in strings & _names(service.signing_name)
    }
    return unsigned_calls | {operations[name] for name in names & operations.keys()} | (names & set(HIDDEN_CALLS))


def boto3_attributes() -> set[str]:
    """The attributes of boto3 that the code uses."""
    nodes = [node for path in sorted(CODE.rglob("*.py")) for node in _nodes(path)]
    return {name for node in nodes for name in _boto3_names(node)}


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


def _services(node: ast.AST) -> Iterator[str]:
    """The service of a boto3 client that is created here."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="boto3")), args=[ast.Constant(value=str(service)), *_]):
            yield service


def _presigned(node: ast.AST) -> Iterator[str]:
    """The operation that a URL is presigned for here."""
    match node:
        case ast.Call(func=ast.Attribute(attr="generate_presigned_url"), args=[ast.Constant(value=str(name)), *_]):
            yield name


def _boto3_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="boto3"), attr=name):
            yield name
        case ast.ImportFrom(module="boto3", names=names):
            yield from (alias.name for alias in names)
        case ast.alias(name="boto3", asname=str(name)):
            yield name


def _names(service: str) -> set[str]:
    """The operations of a service."""
    return set(botocore.session.get_session().get_service_model(service).operation_names)


def _operations(services: set[str]) -> dict[str, str]:
    """The operations of all services by client method name."""
    session = botocore.session.get_session()
    models = [session.get_service_model(service) for service in sorted(services)]
    return {xform_name(name): f"{model.signing_name}:{name}" for model in models for name in model.operation_names}
