"""Deploys and destroys CloudFormation stacks."""
