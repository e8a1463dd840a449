"""Record pings as job events, and keep the keys that allow them."""
