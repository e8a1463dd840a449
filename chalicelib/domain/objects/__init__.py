"""Objects that events describe: references, path queries, summaries."""
