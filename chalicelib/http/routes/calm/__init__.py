"""Routes of snoozes, silences and acknowledgements."""
