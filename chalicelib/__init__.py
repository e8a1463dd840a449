"""Annals: an event log for people who run jobs."""

__version__ = "0.1.0"
