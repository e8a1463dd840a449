"""The server as a hub on DynamoDB Local."""
