"""Results, tables, charts, and docs/performance.md."""
