"""Example programs: a Lambda function, a cron job, a workflow runner."""
