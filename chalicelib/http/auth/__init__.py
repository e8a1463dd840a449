"""Authentication and authorization: tokens, issuer keys, tickets, callers and their rights."""
