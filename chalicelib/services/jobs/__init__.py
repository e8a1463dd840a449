"""Job events: publishing with rules, timeouts, order statistics."""
