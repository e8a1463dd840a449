"""The gateway between the HTTP server and the Chalice app."""
