"""The page of the reports: one HTML file for each organization, made of the tables, with no request to elsewhere."""
