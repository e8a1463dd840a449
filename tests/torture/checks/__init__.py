"""Records of a run, and the check that no promise was broken."""
