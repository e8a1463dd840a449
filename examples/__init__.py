"""Programs to begin with: a Lambda function, a cron job, a runner of workflows."""
