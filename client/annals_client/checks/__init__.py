"""Checks of the files of a server on this machine: what is wrong, where, and what can still be read."""
