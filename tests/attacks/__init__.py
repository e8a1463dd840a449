"""Attacks on a server, which must stay up, limit its memory and keep serving other clients."""
