"""Shells that complete what is typed, each asked in the way in which it can be asked."""

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.serving import PATIENCE_S

READY, TOLD = b"READY", b">TOLD"
ASK = "\x18"
"""Control-X: the key that has zsh tell what stands in its line."""
ZSHRC = """PS1=
{script}
tell() {{ print -rn -- "<$BUFFER>TOLD" }}
zle -N tell
bindkey '^X' tell
zle-line-init() {{ print -n READY }}
zle -N zle-line-init
"""

Completes = Callable[[str, str, Path], set[str]]
"""What a shell that has evaluated a script makes of the last word of a line."""


def bash(script: str, line: str, home: Path) -> set[str]:
    """What bash offers."""
    del home
    typed = f"""{script}
COMP_WORDS=({line}) COMP_CWORD={len(line.split()) - 1}
_annals; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-eu", "-c", typed], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def fish(script: str, line: str, home: Path) -> set[str]:
    """What fish offers."""
    command = ["fish", "--no-config", "-c", f"{script}\ncomplete -C '{line}'"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return set(done.stdout.split())


def zsh(script: str, line: str, home: Path) -> set[str]:
    """What zsh puts into the line when somebody types it and Tab: only where there is but one choice."""
    (home / ".zshrc").write_text(ZSHRC.format(script=script))
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "ZDOTDIR": str(home), "TERM": "dumb"}
    ours, theirs = pty.openpty()
    running = subprocess.Popen(["zsh", "-d", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        _read(ours, READY)
        os.write(ours, f"{line}\t{ASK}".encode())
        written = _read(ours, TOLD)
    finally:
        running.kill()
        running.wait()
        os.close(ours)
    return {written.partition(TOLD)[0].rpartition(b"<")[2].decode().split()[-1]}


SHELLS: Mapping[str, Completes] = {"bash": bash, "zsh": zsh, "fish": fish}


def is_missing(shell: str) -> bool:
    """Whether this machine lacks it."""
    return shutil.which(shell) is None


def _read(terminal: int, mark: bytes) -> bytes:
    """What is written to the terminal, up to the mark."""
    written, ends_at = b"", time.monotonic() + PATIENCE_S
    while mark not in written:
        if not select.select([terminal], [], [], max(ends_at - time.monotonic(), 0))[0]:
            raise AssertionError(f"{mark.decode()} did not come, only {written.decode(errors='replace')}")
        written += os.read(terminal, 65_536)
    return written
