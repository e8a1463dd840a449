"""The rules of the log, pure: no clock, no environment, no randomness, no I/O."""
