"""`make run`: the server on this machine."""

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

from infra.server import local_tokens, logging
from infra.server.startup import opened, or_end, step_back, throw_away_unusable_views

if TYPE_CHECKING:
    from chalicelib.services.feeds.notifiers import Bell
    from chalicelib.wiring import Annals

FIRST_ORGANIZATION = "local"
ENDINGS = {signal.SIGTERM, signal.SIGINT}
SWITCH_S = 0.0005
"""How long a thread may keep the others waiting for the interpreter."""
WATCH_S = 0.1
"""How often is looked for what companions have written."""
GRACE_S = 10.0
"""How long requests under way may take to end."""
OWN_FILES = 256
"""Descriptors that connections leave to the log and to all else."""


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    # Blocked before the first thread starts, so that all inherit it. A handler would not do: the kernel may hand the
    # signal to any thread, and the main thread, waiting, would not wake to run it.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    logging.begin()
    host, port = os.environ.get("HOST") or "127.0.0.1", int(os.environ.get("PORT") or 8000)
    data_dir = Path(os.environ.get("DATA_DIR") or "data").resolve()
    os.environ["DATA_DIR"] = str(data_dir)
    signing_key = local_tokens.checked(os.environ.get("JWT_KEY") or or_end(lambda: local_tokens.key(data_dir)))
    os.environ["JWT_KEY"] = signing_key

    from app import app  # noqa: PLC0415  (it reads the environment that was just completed)
    from chalicelib.services.feeds.notifiers import Bell  # noqa: PLC0415
    from infra.server.gateway.gateway import Gateway  # noqa: PLC0415
    from infra.server.http.server import MOST_WAITING, WORKERS, Server  # noqa: PLC0415
    from infra.server.processes.supervisor import Companion  # noqa: PLC0415

    or_end(lambda: throw_away_unusable_views(data_dir))
    parts = opened()
    bell = cast(Bell, parts.wake)  # in one process nobody has to look
    # What exists now stays, and requests leave no cycles: the collector need not look often.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    sys.setswitchinterval(SWITCH_S)
    or_end(lambda: _prepare(parts))
    threads, room = WORKERS if parts.settings.streams else MOST_WAITING, _room(parts.settings.most_connections)
    server = or_end(lambda: Server(Gateway(app), bell, host, port, threads, room, parts.settings.idle_s))
    serving = threading.Thread(target=server.serve, daemon=True)
    serving.start()
    token = local_tokens.token(signing_key, "operator", [FIRST_ORGANIZATION], ["publishers", "readers", "admins"])
    _greet(f"http://{_in_url(host)}:{server.port}", data_dir, token, parts.signing_in.offer(token))

    companions = [
        Companion("infra.server.processes.consumer_worker"),
        Companion("infra.server.processes.delivery_worker"),
    ]
    threading.Thread(target=_watch, args=(parts, bell), daemon=True).start()
    signal.sigwait(ENDINGS)
    server.stop(release=parts.wake.close)
    serving.join(GRACE_S)
    finished = not serving.is_alive()
    for companion in companions:
        companion.stop()
    parts.close()
    sys.stdout.flush()
    os._exit(0 if finished else 1)  # a client that does not read its answer must not keep us


def _room(most_connections: int) -> int:
    """How many connections there may be; as many descriptors as that takes are asked for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = most_connections + OWN_FILES
    if resource.RLIM_INFINITY not in (soft, hard):
        files = min(files, max(soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))
    return min(most_connections, max(files - OWN_FILES, files // 2))


def _prepare(parts: "Annals") -> None:
    """All that has to be so before anybody is served: also the first organization, and the file of observers."""
    from chalicelib.domain.errors import BadInput  # noqa: PLC0415
    from infra.server.observers_file import configure  # noqa: PLC0415

    step_back(parts)
    parts.organizations.create(FIRST_ORGANIZATION)
    try:
        configure(parts.settings.observers_file, parts.organizations.server(FIRST_ORGANIZATION), parts)
    except BadInput as refusal:
        sys.exit(f"the observers cannot be configured: {refusal}")


def _watch(parts: "Annals", bell: "Bell") -> None:
    """Companions write too: those who wait here must hear of it."""
    while True:
        time.sleep(WATCH_S)
        with suppress(Exception):
            if parts.has_grown():
                bell.stir(parts.log.head)


def _greet(address: str, data_dir: Path, token: str, code: str) -> None:
    """Say where the server is; the console's link signs in whoever opens it first, and nobody after them."""
    event = '{"events":[{"type":["hello","world"],"key":"/greeting","payload":{"type":"json","data":{"text":"Hi"}}}]}'
    told = (
        f"Annals serves {address}, its data is in {data_dir}\n\n"
        f"Open the console: {address}/#code={code}\n\n"
        "Publish a first event:\n\n"
        f"  curl -i {address}/events -H 'Authorization: Bearer {token}' \\\n"
        f"    -H 'Content-Type: application/json' -d '{event}'\n\n"
        f"Read it back, and wait for the next:\n\n"
        f"  curl '{address}/events?timeout=60s' -H 'Authorization: Bearer {token}'\n"
    )
    with suppress(OSError):  # nobody may be listening, and we serve all the same
        print(told, flush=True)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    main()
