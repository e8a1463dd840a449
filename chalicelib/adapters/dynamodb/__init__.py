"""The log in two DynamoDB tables: for AWS, and for endpoints that speak like it."""
