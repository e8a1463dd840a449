"""`annals serve`: run the server in this process, with the environment of the shell."""

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import NoReturn

from annals_client.cli.printing import Printer

ROOT = Path(__file__).parents[3]


def run(args: Namespace, printer: Printer) -> NoReturn:
    """Replace this process by the server. Paths in the settings stay relative to the current directory."""
    del printer
    os.environ["DATA_DIR"] = args.data_dir
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    os.execv(sys.executable, [sys.executable, "-m", "infra.server"])  # noqa: S606  (no shell)
