"""Expectations: their registry, their alarms, and their status."""
