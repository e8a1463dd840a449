"""Operations of AWS: those that functions were seen to call, and those that the code names."""

import ast
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import botocore.session
from botocore import xform_name

from chalicelib.adapters.aws.client import DYNAMODB, GLUE, SQS
from infra.deploy.build.package import ROOT
from tests.adapters.aws.endpoints import Forwarding, serving
from tests.deploy.permissions import Permission, Place, needed

CODE = ROOT / "chalicelib"
FOR_LOCAL_ENDPOINTS = CODE / "adapters" / "dynamodb" / "tables.py"
"""Makes tables where no template does; no function of ours calls it."""
SERVICES = (DYNAMODB, SQS, GLUE)
"""Those that are called without the SDK."""
UNSEEN = ("get_waiter", "get_paginator")
"""Methods of clients that call operations behind our back: their names would not be found."""


class Recorder:
    """Keeps what each function does."""

    def __init__(self, place: Place) -> None:
        self.used: dict[str, set[Permission]] = defaultdict(set)
        self.operations: set[str] = set()
        self._place = place
        self._function: str | None = None

    def listen(self, session: Any) -> None:
        """Hear of every call of the clients of the SDK that this session makes from now on."""
        session.events.register("provide-client-params", self._called)

    @contextmanager
    def endpoint(self, target: str) -> Iterator[str]:
        """The address of an endpoint that hears of every call that is JSON, and passes all on to another."""
        recorder = self

        class Overhearing(Forwarding):
            def passing(self, body: bytes) -> None:
                operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
                if operation:
                    scope = self.headers["Authorization"].partition("Credential=")[2].partition(",")[0]
                    recorder._record(scope.split("/")[3], operation, json.loads(body))

        Overhearing.target = target
        with serving(Overhearing) as address:
            yield address

    @contextmanager
    def acting(self, function: str) -> Iterator[None]:
        """What is called within the block, `function` calls."""
        self._function = function
        try:
            yield
        finally:
            self._function = None

    def _called(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        self._record(model.service_model.signing_name, model.name, params)

    def _record(self, service: str, operation: str, params: Mapping[str, Any]) -> None:
        if self._function is not None:
            self.operations.add(f"{service}:{operation}")
            self.used[self._function].update(needed(service, operation, params, self._place))


def operations_in_code() -> set[str]:
    """Every operation that the code names, whatever it calls it on; a name that is another's too does no harm."""
    nodes = [node for path in sorted(CODE.rglob("*.py")) if path != FOR_LOCAL_ENDPOINTS for node in _nodes(path)]
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {name for node in nodes for name in _signed(node)}
    known = _operations({service for node in nodes for service in _services(node)})
    said = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    own = {f"{one.signing_name}:{name}" for one in SERVICES for name in said & _names(one.signing_name)}
    return own | {known[name] for name in names & known.keys()} | (names & set(UNSEEN))


def made_with_boto3() -> set[str]:
    """What the code asks boto3 for."""
    nodes = [node for path in sorted(CODE.rglob("*.py")) for node in _nodes(path)]
    return {name for node in nodes for name in _of_boto3(node)}


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


def _services(node: ast.AST) -> Iterator[str]:
    """The service that a client is made for here."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="boto3")), args=[ast.Constant(value=str(service)), *_]):
            yield service


def _signed(node: ast.AST) -> Iterator[str]:
    """The operation that a link is signed for here."""
    match node:
        case ast.Call(func=ast.Attribute(attr="generate_presigned_url"), args=[ast.Constant(value=str(name)), *_]):
            yield name


def _of_boto3(node: ast.AST) -> Iterator[str]:
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
    """The operations of all services, by the names of the methods that call them."""
    session = botocore.session.get_session()
    models = [session.get_service_model(service) for service in sorted(services)]
    return {xform_name(name): f"{model.signing_name}:{name}" for model in models for name in model.operation_names}
