"""The server on one machine: a data directory with SQLite files, and worker processes beside the server."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from chalicelib.settings import Settings
from chalicelib.wiring import Components
from infra.server import local_tokens
from infra.server.data_directory import open_data_directory
from infra.server.exits import exit_on_error
from infra.server.processes.supervisor import WorkerProcess
from infra.server.startup import check_checkpoints, check_sqlite, open_components, rewind_consumers

FIRST_ORGANIZATION = "local"
WORKER_MODULES = ("infra.server.processes.consumer_worker", "infra.server.processes.delivery_worker")


class OneMachine:
    """Implements `Role`."""

    refresh_interval_s = 0.1
    worker_threads = 32
    stop_timeout_s = 10.0
    has_slow_reads = False

    def prepare_environment(self) -> None:
        """Create the data directory and the key that signs tokens, if necessary."""
        exit_on_error(check_sqlite)
        data_dir = Path(os.environ.get("DATA_DIR") or "data").resolve()
        os.environ["DATA_DIR"] = str(data_dir)
        exit_on_error(lambda: open_data_directory(data_dir, is_private=Settings.from_environment().private_data))
        key = os.environ.get("JWT_KEY") or exit_on_error(lambda: local_tokens.signing_key(data_dir))
        os.environ["JWT_KEY"] = local_tokens.check_key_length(key)

    def open_components(self) -> Components:
        components = open_components()
        exit_on_error(lambda: _prepare(components))
        return components

    def start(self, components: Components, url: str) -> None:
        groups = ["publishers", "readers", "admins"]
        token = local_tokens.sign_token(os.environ["JWT_KEY"], "operator", [FIRST_ORGANIZATION], groups)
        _print_greeting(url, components.settings.data_dir, token, components.auth.sign_in.issue_code(token))
        self._workers = [WorkerProcess(module) for module in WORKER_MODULES]

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()


def _prepare(components: Components) -> None:
    """Bring the data directory into the state that requests and workers expect."""
    from chalicelib.domain.errors import BadInput  # noqa: PLC0415
    from infra.server.observers_file import apply_observers_file  # noqa: PLC0415

    check_checkpoints(components)
    rewind_consumers(components)
    organizations = components.log.organizations
    organizations.create(FIRST_ORGANIZATION)
    try:
        apply_observers_file(components.settings.observers_file, organizations.server(FIRST_ORGANIZATION), components)
    except BadInput as error:
        sys.exit(f"the observers cannot be configured: {error}")


def _print_greeting(url: str, data_dir: Path, token: str, sign_in_code: str) -> None:
    """Print how to use the server. The console's link works once."""
    job = '"node":"n1","id":117,"type":"backup"'
    events = (
        f'{{"events":[{{"event":"create",{job}}},{{"event":"finish",{job},"success":"1","message":"42 GB copied"}}]}}'
    )
    greeting = (
        f"Annals serves {url}, its data is in {data_dir}\n\n"
        f"Open the console: {url}/#code={sign_in_code}\n\n"
        "Publish a first job, which appears in the console under Objects:\n\n"
        f"  curl -i {url}/events/job -H 'Authorization: Bearer {token}' \\\n"
        f"    -H 'Content-Type: application/json' -d '{events}'\n\n"
        f"Read it back:\n\n"
        f"  curl '{url}/jobs/117' -H 'Authorization: Bearer {token}'\n"
    )
    with suppress(OSError):  # Standard output may be closed.
        print(greeting, flush=True)
