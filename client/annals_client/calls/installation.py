"""Reports, system status and caller identity."""

from typing import cast
from urllib.parse import quote

from annals_client.sans_io import Request, RetryPolicy, Steps, fetch_json
from annals_client.values import Me, Report, System


def reports(policy: RetryPolicy) -> Steps[tuple[Report, ...]]:
    """The finished reports, newest first."""
    document = yield from fetch_json(policy, Request("GET", "/reports"))
    return tuple(document["reports"])


def link(policy: RetryPolicy, name: str) -> Steps[str]:
    """A link to the page of a report, valid for a minute. A relative link is relative to the API URL."""
    document = yield from fetch_json(policy, Request("POST", f"/reports/{quote(name, safe='')}/link"))
    url: str = document["link"]
    return url


def system(policy: RetryPolicy) -> Steps[System]:
    """Status of the log, its consumers and the installation."""
    document = yield from fetch_json(policy, Request("GET", "/system"))
    return cast(System, document)


def me(policy: RetryPolicy) -> Steps[Me]:
    """Your identity, permissions and token expiry."""
    document = yield from fetch_json(policy, Request("GET", "/me"))
    return cast(Me, document)
