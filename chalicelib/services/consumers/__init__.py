"""Log consumers: checkpoints, catch-up, and the projector."""
