"""Attacks on a server that has to stay up, keep its memory, and go on serving honest people."""
