"""Routes of pings and of ping keys."""
