"""The Spark jobs beside DuckDB."""
