"""Adapters of the services' ports: `sqlite` for one machine, `dynamodb` for AWS."""
