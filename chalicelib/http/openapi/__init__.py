"""OpenAPI 3.1 document, built from the routes, their `@route_doc` annotations and the pydantic models.

This module imports nothing: every route imports `annotations`, and the rest takes long to load.
"""
