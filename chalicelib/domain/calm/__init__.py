"""Calm notifications: which events send a message at once, later with others, or not at all."""
