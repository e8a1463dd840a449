"""`make rebuild`: build the views of the local log anew, also while the server runs."""

import sys
from functools import partial

from chalicelib.domain.organizations import DIRECTORY, Organization
from chalicelib.services.project import rebuild
from chalicelib.wiring import annals

WIDTH = 40


def main() -> None:
    """All servers, one after the other."""
    parts = annals()
    for organization in (Organization("(organizations)", DIRECTORY), *parts.organizations.all()):
        kept = parts.retention.forgotten(organization.server).before if organization.server != DIRECTORY else None
        rebuild(organization.server, parts.log, parts.views, partial(_show, organization.name), kept)
        print(f"\r{organization.name:20} views rebuilt{' ' * (WIDTH + 10)}")
    parts.close()


def _show(name: str, done: int, of: int) -> None:
    filled = WIDTH * done // max(of, 1)
    sys.stdout.write(f"\r{name:20} [{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{of}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
