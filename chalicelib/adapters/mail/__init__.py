"""Mail: messages, SMTP, SES, maildir."""
