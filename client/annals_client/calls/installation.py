"""Reports, the system, and who the caller is."""

from typing import cast
from urllib.parse import quote

from annals_client.sans_io import Manners, Request, Steps, told
from annals_client.values import Me, Report, System


def reports(manners: Manners) -> Steps[tuple[Report, ...]]:
    """The reports that became ready, the newest first."""
    said = yield from told(manners, Request("GET", "/reports"))
    return tuple(said["reports"])


def link(manners: Manners, name: str) -> Steps[str]:
    """A link to a report's page, good for a minute; a relative one is below the address of the API."""
    said = yield from told(manners, Request("POST", f"/reports/{quote(name, safe='')}/link"))
    found: str = said["link"]
    return found


def system(manners: Manners) -> Steps[System]:
    """Where the log stands, how far its consumers are, how the installation is set up."""
    said = yield from told(manners, Request("GET", "/system"))
    return cast(System, said)


def me(manners: Manners) -> Steps[Me]:
    """Who you are, what you may do, and until when."""
    said = yield from told(manners, Request("GET", "/me"))
    return cast(Me, said)
