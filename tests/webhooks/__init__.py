"""A receiver of webhooks in Node, with the package `standardwebhooks` from npm."""
