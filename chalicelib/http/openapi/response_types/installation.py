"""Responses of the routes of the installation, and problems."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.domain.events.ids import EventId
from chalicelib.http.openapi.response_types.events import EventIdentity


class Organization(TypedDict):
    """An organization and the number of its log."""

    organization: str
    server: Annotated[int, Field(ge=1)]


class LogHead(TypedDict):
    """The last event of a log."""

    id: EventIdentity
    eventId: EventId


class Health(TypedDict):
    """The server works. `heads` lists the last events of logs. The next page starts after the last server number."""

    status: Literal["ok"]
    version: str
    heads: list[LogHead]


class OpenApi(TypedDict):
    """This document."""

    openapi: str
    info: dict[str, Any]
    servers: list[dict[str, Any]]
    tags: list[dict[str, Any]]
    paths: dict[str, Any]
    components: dict[str, Any]


class AsyncApi(TypedDict):
    """The AsyncAPI document."""

    asyncapi: str
    info: dict[str, Any]
    defaultContentType: str
    channels: dict[str, Any]
    operations: dict[str, Any]
    components: dict[str, Any]


class Problem(TypedDict):
    """A problem (RFC 9457). `detail` explains the error."""

    type: str
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: str
    eventId: NotRequired[EventId]
    error: NotRequired[list[str]]


class GatewayMessage(TypedDict):
    """An error response of API Gateway itself."""

    message: str
