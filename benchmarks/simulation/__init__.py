"""A simulation of many writers on one DynamoDB log, in virtual time."""
