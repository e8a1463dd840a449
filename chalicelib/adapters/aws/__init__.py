"""A small client for the AWS JSON services that Annals calls.

It replaces the SDK in Lambda functions, which takes longer to import than a cold start may last and five times the CPU
per call.
"""
