"""Annals and its peers side by side on one machine."""
