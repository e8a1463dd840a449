"""Use cases, one folder per capability, on top of the interfaces in `ports`."""
