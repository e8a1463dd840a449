"""Organizations and the groups that grant permissions."""
