"""The HTTP API: parses requests, calls one service, renders responses."""
