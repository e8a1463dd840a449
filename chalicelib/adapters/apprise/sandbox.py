"""Limits what this process may do from now on. Cannot be undone.

An audit hook sees each connection, file and program before it is used, also those that a library uses on its own, such
as the target of a redirect or an address that DNS returned only at the second query.
"""

import os
import resource
import socket
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from chalicelib.adapters.webhooks.allowed_hosts import is_permitted

MAX_MEMORY_BYTES = 1024**3
MAX_CPU_S = 20
_NETWORK = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_PROGRAMS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}
_OTHER = {"ctypes.dlopen", "socket.bind"}
_READABLE = ("/etc/ssl", "/etc/mime.types", "/usr/share/zoneinfo", "/usr/share/ca-certificates")


class Sandbox:
    """Permits connections to public addresses and those in `private`, and reading Python's own files."""

    def __init__(self) -> None:
        self.private: Collection[tuple[str, int]] = ()
        """Addresses and ports of listed hosts."""
        self.refusals: list[str] = []
        """Reasons of the refused operations. Libraries may hide the exceptions."""
        authorities = os.environ.get("REQUESTS_CA_BUNDLE")
        folders = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), authorities, *_READABLE)
        self._readable = tuple(Path(folder).resolve() for folder in folders if folder)

    def enter(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _NETWORK:
            self._check_address(args[1])
        elif event == "open":
            self._check_file(*args)
        elif event in _PROGRAMS or event in _OTHER:
            self._refuse("it would use this machine, which is not allowed")

    def _check_address(self, address: Any) -> None:
        match address:
            case (str(host), int(port), *_):
                if (host, port) not in self.private and not _is_public(host):
                    self._refuse("it has an address that is not public, so nothing is sent there")
            case _:
                self._refuse("it would use this machine, which is not allowed")

    def _check_file(self, path: Any, mode: Any, flags: Any) -> None:
        if isinstance(path, int):
            return  # Already open.
        place = Path(os.fsdecode(path)).resolve()
        is_read = (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) == 0 and set(mode or "r").isdisjoint("wax+")
        if not is_read or not any(place.is_relative_to(folder) for folder in self._readable):
            # Not a refusal of the message: libraries look for optional files, and continue without them.
            raise PermissionError("files of this machine are not available")

    def _refuse(self, reason: str) -> None:
        self.refusals.append(reason)
        raise PermissionError(reason)


def addresses(host: str, port: int) -> set[tuple[str, int]]:
    """The addresses of a listed host."""
    try:
        return {(entry[4][0], port) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}  # type: ignore[misc]
    except (OSError, UnicodeError):
        return set()


def _is_public(host: str) -> bool:
    try:
        return is_permitted(host, allow_private=False)
    except ValueError:
        return False
