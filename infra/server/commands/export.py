"""`make export`: the commits of the local log as files, in the layout of DynamoDB's exports.

The first export is full, later ones hold what came since; the server may run meanwhile. They are in EXPORT_DIR, by
default `exports` in the data directory. One that was cut off is done again by the next run, and nobody has seen half
of it.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from chalicelib.adapters.dynamodb.items import item_from_commit
from chalicelib.domain.errors import AnnalsError
from chalicelib.domain.exports.export import Export
from chalicelib.services.exports.local_export import lines, next_export
from chalicelib.wiring import Annals
from infra.server.commands.export_folder import ExportFolder
from infra.server.startup import opened
from infra.tools.progress import Progress


@dataclass(frozen=True, slots=True)
class Exported:
    """An export in its place."""

    export: Export
    path: Path
    items: int


def export(parts: Annals, folder: ExportFolder, full: bool = False) -> list[Exported]:
    """Export what is to be exported now: nothing, or one export, or two if one was cut off before."""
    with folder.locked():
        planned = folder.ledger().planned
        found = [_export(parts, folder, full)]
        if found[0] is not None and found[0].export == planned:
            found.append(_export(parts, folder))
        return [one for one in found if one is not None]


def _export(parts: Annals, folder: ExportFolder, full: bool = False) -> Exported | None:
    ledger = folder.ledger()
    servers = [organization.server for organization in parts.organizations.all()]
    wanted = next_export(ledger, parts.log, servers, parts.clock(), full)
    folder.keep(ledger.model_copy(update={"planned": wanted}))
    if wanted is None:
        return None
    progress = Progress("Exporting", wanted.commits, "commits")
    items = folder.write(wanted, lines(wanted, parts.log, item_from_commit), progress.to)
    folder.keep(ledger.completed(wanted))
    place = folder.place(wanted)
    progress.end(f"{'A full' if wanted.from_ms is None else 'An incremental'} export of {items:,} commits: {place}")
    return Exported(wanted, place, items)


def main() -> None:
    """Export once."""
    parser = argparse.ArgumentParser(description="Export the local log in the layout of DynamoDB's exports.")
    parser.add_argument("--full", action="store_true", help="everything anew, not only what is new")
    args = parser.parse_args()
    parts = opened()
    try:
        if not export(parts, ExportFolder(parts.settings.exports.directory, parts.clock), args.full):
            print("Nothing is new since the last export.")
    except (AnnalsError, OSError) as failure:
        sys.exit(f"The log cannot be exported: {failure}")
    finally:
        parts.close()


if __name__ == "__main__":
    main()
