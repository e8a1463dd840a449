"""Example programs: a Lambda function and a workflow runner, and configurations that use `annals run`."""
