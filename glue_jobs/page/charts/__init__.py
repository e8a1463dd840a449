"""Charts of the report page."""
