"""The outbox on SQS."""
