"""The one-machine server, deployment, the CloudFormation template, and tools."""
