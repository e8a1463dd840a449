"""Load generators, one per peer, and the events they store and append."""
