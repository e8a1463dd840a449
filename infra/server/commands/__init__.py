"""Commands on a data directory: export, report, rebuild."""
