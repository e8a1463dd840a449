"""Routes of expectations, silences and acknowledgements."""
