"""`make export`: export the commits of the local log, in the file format of DynamoDB's table exports.

The first export is full, later ones are incremental. The server may run meanwhile. The exports are written to
EXPORT_DIR, by default `exports` in the data directory. The next run repeats an export that was interrupted. Readers
never see an incomplete export.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from chalicelib.adapters.dynamodb.items import item_from_commit
from chalicelib.domain.errors import AnnalsError
from chalicelib.domain.exports.export import Export
from chalicelib.services.exports.local_export import export_lines, next_export
from chalicelib.wiring import Components
from infra.server.commands.export_folder import ExportFolder
from infra.server.startup import open_components
from infra.tools.progress import Progress


@dataclass(frozen=True, slots=True)
class Exported:
    """A complete export."""

    export: Export
    path: Path
    items: int


def export(components: Components, folder: ExportFolder, full: bool = False) -> list[Exported]:
    """Export the new commits: no export, one, or two if an interrupted one has to be repeated first."""
    with folder.lock():
        planned = folder.ledger().planned
        first = _export(components, folder, full)
        is_repeated = first is not None and first.export == planned
        second = _export(components, folder) if is_repeated else None
        return [exported for exported in (first, second) if exported is not None]


def _export(components: Components, folder: ExportFolder, full: bool = False) -> Exported | None:
    ledger = folder.ledger()
    servers = [organization.server for organization in components.log.organizations.all()]
    planned = next_export(ledger, components.stores.log, servers, components.clock(), full)
    folder.save_ledger(ledger.model_copy(update={"planned": planned}))
    if planned is None:
        return None
    progress = Progress("Exporting", planned.commits, "commits")
    items = folder.write(planned, export_lines(planned, components.stores.log, item_from_commit), progress.update)
    folder.save_ledger(ledger.with_completed(planned))
    path = folder.path_of(planned)
    progress.finish(f"{'A full' if planned.from_ms is None else 'An incremental'} export of {items:,} commits: {path}")
    return Exported(planned, path, items)


def main() -> None:
    parser = argparse.ArgumentParser(description="Export the local log in the file format of DynamoDB's table exports.")
    parser.add_argument("--full", action="store_true", help="export all commits again, not only the new ones")
    args = parser.parse_args()
    components = open_components()
    try:
        if not export(components, ExportFolder(components.settings.exports.directory, components.clock), args.full):
            print("There are no new commits since the last export.")
    except (AnnalsError, OSError) as error:
        sys.exit(f"The log cannot be exported: {error}")
    finally:
        components.close()


if __name__ == "__main__":
    main()
