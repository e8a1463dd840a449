"""Model-based tests of exact reads: each result equals a simple computation over all events up to its EventId."""
