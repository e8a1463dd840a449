"""Calm notifications: the states of observers, held messages, silences and acknowledgements."""
