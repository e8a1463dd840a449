"""The page of the reports, made of small tables that are written by hand."""
