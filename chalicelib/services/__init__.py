"""Use cases, one a file, with the ports they need in `ports`."""
