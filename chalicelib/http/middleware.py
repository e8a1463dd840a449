"""Chalice middleware for HTTP requests. Only Lambda functions run it; the embedded server calls the views directly."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from chalice.app import Response

from chalicelib.domain.queries.size_limit import MAX_LAMBDA_RESPONSE_BYTES, escaped_bytes
from chalicelib.http.problems import problem

ENVELOPE_BYTES = 16 * 1024
"""Space for the headers and the status beside the body of a response."""
MAX_BYTES_PER_CHARACTER = 12
"""A character beyond U+FFFF, as two escape sequences."""


def limit_response_size(request: Any, get_response: Callable[[Any], Response]) -> Response:
    """Refuse a request whose response exceeds the limit of Lambda. API Gateway would return 502 without a reason."""
    response = get_response(request)
    body, max_bytes = response.body, MAX_LAMBDA_RESPONSE_BYTES - ENVELOPE_BYTES
    if not isinstance(body, str) or len(body) * MAX_BYTES_PER_CHARACTER <= max_bytes:
        return response
    size_bytes = escaped_bytes([body])
    if size_bytes <= max_bytes:
        return response
    detail = (
        f"the response has {size_bytes} bytes, more than the {max_bytes} that are possible; request less: a list or a "
        "snapshot in pages with limit=1000, a narrower path, or the events of an object instead of its details"
    )
    return problem(HTTPStatus.BAD_REQUEST, detail)
