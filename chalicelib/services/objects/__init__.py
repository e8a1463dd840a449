"""Snapshots and lists of objects."""
