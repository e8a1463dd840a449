"""`make run` and `annals serve`: the server, on one machine with its own data, or as a hub on DynamoDB.

`STORE` decides. All that differs between the two is in `OneMachine` and `Hub`.

Threads: the main thread waits for a signal. The server thread runs `Server.serve`. The thread `annals-refresh` polls
for commits of other processes.
"""

import gc
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, cast

from chalicelib.settings import Settings
from infra.server import logging
from infra.server.exits import exit_on_error

if TYPE_CHECKING:
    from chalicelib.wiring import Components

STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
SWITCH_INTERVAL_S = 0.0005
"""How long a thread may run before it must release the interpreter lock."""
RESERVED_FILES = 256
"""File descriptors that are not available for connections."""


class Role(Protocol):
    """What a server process does besides serving HTTP, and what it needs for that."""

    refresh_interval_s: float
    """Interval between polls for commits of other processes."""
    worker_threads: int
    """Threads for requests that read the store."""
    stop_timeout_s: float
    """How long current requests may take to finish after SIGTERM."""
    has_slow_reads: bool
    """Whether a read of the store may take long, so that a thread that serves many clients should not do it."""

    def prepare_environment(self) -> None:
        """Complete the environment variables, before the app reads them."""

    def open_components(self) -> "Components":
        """The components of this process. Exits if the store cannot be used."""

    def start(self, components: "Components", url: str) -> None:
        """The server is listening: start the other processes and print the first line of output."""

    def stop(self) -> None:
        """The server has stopped: end the other processes."""


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    # Block the signals before the first thread starts, so that all threads inherit that. A signal handler would not
    # work: the kernel may deliver the signal to any thread, and the main thread would not wake up to run the handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    logging.configure()
    role = _role()
    role.prepare_environment()
    host, port = os.environ.get("HOST") or "127.0.0.1", int(os.environ.get("PORT") or 8000)

    from app import app  # noqa: PLC0415  (reads the environment that is complete only now)
    from chalicelib.services.feeds.notifiers import CommitNotifier  # noqa: PLC0415
    from infra.server.gateway.gateway import Gateway  # noqa: PLC0415
    from infra.server.http.server import MAX_BLOCKING_THREADS, Server  # noqa: PLC0415

    components = role.open_components()
    settings = components.settings
    notifier = cast(CommitNotifier, components.log.notifier)
    # All objects so far stay alive, and requests create no reference cycles, so the collector needs to run rarely.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    server = exit_on_error(
        lambda: Server(
            Gateway(app, settings.cors_origins),
            notifier,
            components.log.publisher.appends.flush,
            host,
            port,
            max_threads=role.worker_threads if settings.streams else MAX_BLOCKING_THREADS,
            max_connections=_reserve_connections(settings.max_connections),
            idle_timeout_s=settings.idle_timeout_s,
            has_slow_reads=role.has_slow_reads,
        )
    )
    server_thread = threading.Thread(target=server.serve, name="annals-server", daemon=True)
    server_thread.start()
    role.start(components, f"http://{_host_in_url(host)}:{server.port}")
    refresh = threading.Thread(
        target=_refresh, args=(components, role.refresh_interval_s), name="annals-refresh", daemon=True
    )
    refresh.start()
    signal.sigwait(STOP_SIGNALS)
    server.stop(release_waiting=notifier.close)
    server_thread.join(role.stop_timeout_s)
    is_finished = not server_thread.is_alive()
    role.stop()
    components.close()
    sys.stdout.flush()
    os._exit(0 if is_finished else 1)  # Do not wait for clients that do not read their responses.


def _role() -> Role:
    # Each role imports only what it needs: a hub has no SQLite.
    match Settings.from_environment().store:
        case "sqlite":
            from infra.server.one_machine import OneMachine  # noqa: PLC0415

            return OneMachine()
        case "dynamodb":
            from infra.server.hub import Hub  # noqa: PLC0415

            return Hub()
        case store:
            sys.exit(f"annals: STORE is '{store[:40]}'; it must be 'sqlite' or 'dynamodb'")


def _reserve_connections(max_connections: int) -> int:
    """Raise the limit of open files and return the number of connections that fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = max_connections + RESERVED_FILES
    if resource.RLIM_INFINITY not in (soft, hard):
        files = min(files, max(soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))
    return min(max_connections, max(files - RESERVED_FILES, files // 2))


def _refresh(components: "Components", interval_s: float) -> None:
    """Notify subscribers of commits that other processes have written."""
    while True:
        time.sleep(interval_s)
        with suppress(Exception):
            components.log.refresh()


def _host_in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    main()
