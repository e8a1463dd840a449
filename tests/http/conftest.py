"""One server for the tests of this directory; each test has an organization of its own."""

from typing import Any

import pytest
from pydantic_core import from_json

from tests.clients.following import MODULES
from tests.serving import a_member, a_server

__all__ = ["a_member", "a_server"]

ASYNCAPI = MODULES / "@asyncapi" / "specs" / "schemas" / "3.0.0-without-$id.json"


@pytest.fixture
def asyncapi() -> dict[str, Any]:
    """The JSON Schema of AsyncAPI documents."""
    if not ASYNCAPI.exists():
        pytest.skip("npm's @asyncapi/specs is not installed; `make test` does it")
    schema: dict[str, Any] = from_json(ASYNCAPI.read_bytes())
    return schema
