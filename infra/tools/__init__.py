"""Demo data, previews, and generators of documentation."""
