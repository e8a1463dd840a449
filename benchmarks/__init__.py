"""Side-by-side runs against peers: `make bench`."""
