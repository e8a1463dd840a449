"""Exact reads: the view up to its checkpoint, then the log after it."""
