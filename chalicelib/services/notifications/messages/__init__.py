"""The variables of message templates."""
