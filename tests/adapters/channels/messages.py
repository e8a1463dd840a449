"""Messages for tests of the channels, with plausible defaults."""

from chalicelib.domain.notifications.delivery import Mail, SlackPost

NOW_MS = 1_700_000_000_000


def a_mail(
    delivery: str = "1.7.1/ops",
    sender: str = "annals@example.org",
    title: str = "",
    recipient: str = "anna@example.org",
    subject: str = "Job finished",
    text: str = "It is done.\n",
    html: str = "<p>It is done.</p>\n",
) -> Mail:
    return Mail(delivery, sender, title, recipient, subject, text, html)


def a_post(url: str, delivery: str = "1.7.1/chat", json: str = '{"text":"Job finished"}') -> SlackPost:
    return SlackPost(delivery, url, json)
