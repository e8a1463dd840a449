"""Message templates: the sandboxed renderer and the built-in templates for each channel."""
