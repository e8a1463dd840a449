"""The calls of the API: one generator of steps per client method."""
