"""Worker processes beside the server, and their supervisor."""
