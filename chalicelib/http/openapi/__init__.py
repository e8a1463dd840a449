"""The API's description, OpenAPI 3.1: made of the routes, of what their views say of themselves, and of the models."""

from chalicelib.http.openapi.document import document

__all__ = ["document"]
