"""Run the completion of real shells."""

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.serving import TIMEOUT_S

READY, SHOWN = b"READY", b">SHOWN"
SHOW_KEY = "\x18"
"""Control-X: bound to a zsh widget that prints the current line."""
ZSHRC = """PS1=
{script}
show() {{ print -rn -- "<$BUFFER>SHOWN" }}
zle -N show
bindkey '^X' show
zle-line-init() {{ print -n READY }}
zle -N zle-line-init
"""

CompletionFunction = Callable[[str, str, Path], set[str]]
"""Completions of the last word of a line, given the completion script, the line and a home directory."""


def bash(script: str, line: str, home: Path) -> set[str]:
    del home
    typed = f"""{script}
COMP_WORDS=({line}) COMP_CWORD={len(line.split()) - 1}
_annals; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-eu", "-c", typed], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def fish(script: str, line: str, home: Path) -> set[str]:
    command = ["fish", "--no-config", "-c", f"{script}\ncomplete -C '{line}'"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    return set(done.stdout.split())


def zsh(script: str, line: str, home: Path) -> set[str]:
    """The word that zsh inserts after Tab. Works only if there is exactly one completion."""
    (home / ".zshrc").write_text(ZSHRC.format(script=script))
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "ZDOTDIR": str(home), "TERM": "dumb"}
    terminal, child_end = pty.openpty()
    running = subprocess.Popen(
        ["zsh", "-d", "-i"], stdin=child_end, stdout=child_end, stderr=child_end, env=environment
    )
    os.close(child_end)
    try:
        _read(terminal, READY)
        os.write(terminal, f"{line}\t{SHOW_KEY}".encode())
        written = _read(terminal, SHOWN)
    finally:
        running.kill()
        running.wait()
        os.close(terminal)
    return {written.partition(SHOWN)[0].rpartition(b"<")[2].decode().split()[-1]}


SHELLS: Mapping[str, CompletionFunction] = {"bash": bash, "zsh": zsh, "fish": fish}


def is_missing(shell: str) -> bool:
    return shutil.which(shell) is None


def _read(terminal: int, mark: bytes) -> bytes:
    """Terminal output up to the mark."""
    written, ends_at = b"", time.monotonic() + TIMEOUT_S
    while mark not in written:
        if not select.select([terminal], [], [], max(ends_at - time.monotonic(), 0))[0]:
            raise AssertionError(f"no {mark.decode()} in the output: {written.decode(errors='replace')}")
        written += os.read(terminal, 65_536)
    return written
