"""Long polls and streams: suspendable reads and the notifiers that resume them."""
