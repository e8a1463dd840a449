"""Expectations: when jobs should run, and whether they do."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from annals_client.errors import NotFound
from annals_client.sans_io import Request, RetryPolicy, Steps, fetch_json
from annals_client.values import Expectation


def expectations(policy: RetryPolicy) -> Steps[tuple[Expectation, ...]]:
    """All expectations with their status, ordered by name."""
    found = list[Expectation]()
    while True:
        position = [("after", found[-1]["name"])] if found else []
        document = yield from fetch_json(policy, Request("GET", "/expectations", position))
        found += document["expectations"]
        if not document["moreFollows"]:
            return tuple(found)


def get(policy: RetryPolicy, name: str) -> Steps[Expectation]:
    """An expectation with its status."""
    document = yield from fetch_json(policy, Request("GET", _path(name)))
    return cast(Expectation, document)


def put(policy: RetryPolicy, name: str, configuration: Mapping[str, Any]) -> Steps[Expectation]:
    """Create or change an expectation. The configuration holds from now on."""
    document = yield from fetch_json(policy, Request("PUT", _path(name), body=dict(configuration)))
    return cast(Expectation, document)


def delete(policy: RetryPolicy, name: str) -> Steps[None]:
    """Delete an expectation."""
    try:
        yield from fetch_json(policy, Request("DELETE", _path(name)))
    except NotFound as error:
        # After a retry, the first attempt may have deleted it.
        if error.tries == 1:
            raise


def _path(name: str) -> str:
    return f"/expectations/{quote(name, safe='')}"
