"""The routes, one module per subject. A view parses the request, calls one service and renders the response."""
