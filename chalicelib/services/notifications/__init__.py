"""Notifications: match events with observers, build messages, deliver them."""
