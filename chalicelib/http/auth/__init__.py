"""Callers: tokens, issuer keys, tickets, and the authorizer."""
