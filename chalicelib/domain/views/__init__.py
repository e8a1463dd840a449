"""The records of the views, and the projections that build them from commits."""
