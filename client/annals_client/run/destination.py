"""The server and the organization that a run is reported to."""

import base64
import json
from typing import NamedTuple

from annals_client.run.spooled_run import Description


class Destination(NamedTuple):
    """Where runs are sent, with the token of the current call. The token is never stored."""

    url: str
    token: str
    organization: str | None

    @property
    def name(self) -> str:
        """The organization in the description of a run: the given one, or the default of the token."""
        return self.organization or _first_organization(self.token)

    def accepts(self, description: Description) -> bool:
        """Whether the run was meant for this server and organization. A token is sent to no other server."""
        return (description["url"], description["organization"]) == (self.url, self.name)


def _first_organization(token: str) -> str:
    """The first organization in a JWT, without verification. Empty if it names none."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        named = claims["org"]
        return str(named if isinstance(named, str) else named[0])
    except (IndexError, KeyError, ValueError, TypeError):
        return ""
