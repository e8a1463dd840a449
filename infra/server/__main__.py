"""`make run`: the server on this machine.

Threads: the main thread waits for a signal. The server thread runs `Server.serve`. The thread `annals-refresh` polls
for commits of the worker processes.
"""

import gc
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from chalicelib.settings import Settings
from infra.server import local_tokens, logging
from infra.server.data_directory import open_data_directory
from infra.server.startup import (
    check_checkpoints,
    check_sqlite,
    exit_on_error,
    open_components,
    rewind_consumers,
)

if TYPE_CHECKING:
    from chalicelib.services.feeds.notifiers import CommitNotifier
    from chalicelib.wiring import Components

FIRST_ORGANIZATION = "local"
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
SWITCH_INTERVAL_S = 0.0005
"""How long a thread may run before it must release the interpreter lock."""
REFRESH_INTERVAL_S = 0.1
"""Interval between polls for commits of other processes."""
STOP_TIMEOUT_S = 10.0
"""How long current requests may take to finish."""
RESERVED_FILES = 256
"""File descriptors that are not available for connections."""


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    # Block the signals before the first thread starts, so that all threads inherit that. A signal handler would not
    # work: the kernel may deliver the signal to any thread, and the main thread would not wake up to run the handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    logging.configure()
    exit_on_error(check_sqlite)
    host, port = os.environ.get("HOST") or "127.0.0.1", int(os.environ.get("PORT") or 8000)
    data_dir = Path(os.environ.get("DATA_DIR") or "data").resolve()
    os.environ["DATA_DIR"] = str(data_dir)
    exit_on_error(lambda: open_data_directory(data_dir, is_private=Settings.from_environment().private_data))
    key = os.environ.get("JWT_KEY") or exit_on_error(lambda: local_tokens.signing_key(data_dir))
    os.environ["JWT_KEY"] = local_tokens.check_key_length(key)

    from app import app  # noqa: PLC0415  (reads the environment that is complete only now)
    from chalicelib.services.feeds.notifiers import CommitNotifier  # noqa: PLC0415
    from infra.server.gateway.gateway import Gateway  # noqa: PLC0415
    from infra.server.http.server import MAX_BLOCKING_THREADS, WORKER_THREADS, Server  # noqa: PLC0415
    from infra.server.processes.supervisor import WorkerProcess  # noqa: PLC0415

    components = open_components()
    settings = components.settings
    notifier = cast(CommitNotifier, components.log.notifier)
    # All objects so far stay alive, and requests create no reference cycles, so the collector needs to run rarely.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    exit_on_error(lambda: _prepare(components))
    server = exit_on_error(
        lambda: Server(
            Gateway(app, settings.cors_origins),
            notifier,
            components.log.publisher.appends.flush,
            host,
            port,
            max_threads=WORKER_THREADS if settings.streams else MAX_BLOCKING_THREADS,
            max_connections=_reserve_connections(settings.max_connections),
            idle_timeout_s=settings.idle_timeout_s,
        )
    )
    server_thread = threading.Thread(target=server.serve, name="annals-server", daemon=True)
    server_thread.start()
    token = local_tokens.sign_token(key, "operator", [FIRST_ORGANIZATION], ["publishers", "readers", "admins"])
    sign_in_code = components.auth.sign_in.issue_code(token)
    _print_greeting(f"http://{_host_in_url(host)}:{server.port}", data_dir, token, sign_in_code)

    workers = [
        WorkerProcess("infra.server.processes.consumer_worker"),
        WorkerProcess("infra.server.processes.delivery_worker"),
    ]
    threading.Thread(target=_refresh, args=(components, notifier), name="annals-refresh", daemon=True).start()
    signal.sigwait(STOP_SIGNALS)
    server.stop(release_waiting=notifier.close)
    server_thread.join(STOP_TIMEOUT_S)
    is_finished = not server_thread.is_alive()
    for worker in workers:
        worker.stop()
    components.close()
    sys.stdout.flush()
    os._exit(0 if is_finished else 1)  # Do not wait for clients that do not read their responses.


def _reserve_connections(max_connections: int) -> int:
    """Raise the limit of open files and return the number of connections that fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = max_connections + RESERVED_FILES
    if resource.RLIM_INFINITY not in (soft, hard):
        files = min(files, max(soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))
    return min(max_connections, max(files - RESERVED_FILES, files // 2))


def _prepare(components: "Components") -> None:
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


def _refresh(components: "Components", notifier: "CommitNotifier") -> None:
    """Notify subscribers of commits that other processes have written."""
    while True:
        time.sleep(REFRESH_INTERVAL_S)
        with suppress(Exception):
            if components.stores.has_external_writes():
                notifier.refresh(components.stores.log.head)


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


def _host_in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    main()
