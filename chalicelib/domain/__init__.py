"""The rules of the log: pure code without clock, environment, randomness or I/O."""
