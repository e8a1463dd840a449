"""The report page: one self-contained HTML file per organization, made from the report tables."""
