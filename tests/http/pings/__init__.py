"""Pings and ping keys through HTTP."""
