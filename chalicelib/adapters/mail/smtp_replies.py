"""Recognizes replies of mail servers that are rate limits: the server would accept the same mail later."""

import re

_RATE_LIMITS = {
    (421, "4.7.28"),  # Gmail: unusual rate of mail
    (450, "4.2.1"),  # Gmail: the recipient gets mail too quickly
    (550, "5.4.5"),  # Gmail: daily limit of the sender
    (550, "5.1.90"),  # Exchange Online: daily limit of the sender
}
_TEMPORARY_RATE_LIMIT = re.compile(r"4\.3\.2|4\.4\.5|4\.7\.[56]\d\d")
"""Enhanced status codes that are rate limits with every code of the 400s.

RFC 3463: 4.3.2 is a system that accepts no messages, 4.4.5 is congestion. Outlook throttles with 4.7.500 to 4.7.699.
"""

_ENHANCED_STATUS = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})\b")
_NAME = re.compile(r"\S*\w[@.]\w\S*")
"""Addresses and names of hosts, which may contain any word."""
_RATE_LIMIT_WORDS = re.compile(
    r"\brate[ -]?limit|\b(?:sending|message|connection|delivery|submission) rate\b|\bunusual rate\b"
    r"|\bunexpected volume\b|\bthrottl(?:ed|ing)\b|\btoo (?:fast|quickly)\b|\bslow down\b"
    r"|\btoo (?:many|much) (?:\w+ ){0,2}?(?:mails?|e-?mails?|messages|connections|sessions|recipients|requests)\b"
    r"|\b(?:daily|hourly|sending)(?: \w+){0,2} (?:quota|limit)\b|\blimits for how many messages\b",
    re.IGNORECASE,
)


def is_rate_limit(code: int, text: str) -> bool:
    """Whether a reply with this SMTP code and text limits the number of mails, connections or recipients.

    The enhanced status code at the beginning of the text decides. Many servers send none or a general one for rate
    limits, for example 4.7.0 and 4.7.1. Then the words of a temporary reply decide.
    """
    match = _ENHANCED_STATUS.match(text)
    status = match[1] if match else ""
    if (code, status) in _RATE_LIMITS:
        return True
    if not 400 <= code < 500:
        return False
    return bool(_TEMPORARY_RATE_LIMIT.fullmatch(status) or _RATE_LIMIT_WORDS.search(_NAME.sub(" ", text)))
