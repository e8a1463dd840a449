"""The OpenAPI and AsyncAPI documents. `test_served_documents` checks that the server serves exactly these."""

from typing import Any

import pytest
from pydantic_core import from_json, to_json

import app
from chalicelib import __version__
from chalicelib.http.asyncapi import document as asyncapi
from chalicelib.http.openapi import document as openapi
from tests.clients.feed_client import MODULES
from tests.http.openapi.response_checks import Document

ASYNCAPI_SCHEMA = MODULES / "@asyncapi" / "specs" / "schemas" / "3.0.0-without-$id.json"


@pytest.fixture(scope="session")
def openapi_document() -> Document:
    document: Document = from_json(to_json(openapi.document(app.app.routes, __version__)))
    return document


@pytest.fixture(scope="session")
def asyncapi_document(openapi_document: Document) -> Document:
    document: Document = from_json(to_json(asyncapi.document(openapi_document)))
    return document


@pytest.fixture(scope="session")
def asyncapi_schema() -> dict[str, Any]:
    """The JSON Schema of AsyncAPI documents."""
    if not ASYNCAPI_SCHEMA.exists():
        pytest.skip("npm's @asyncapi/specs is not installed; `make test` installs it")
    schema: dict[str, Any] = from_json(ASYNCAPI_SCHEMA.read_bytes())
    return schema
