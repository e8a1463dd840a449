"""Events: identifiers, types, the event itself, its stored body, and the head of a log."""
