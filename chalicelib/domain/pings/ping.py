"""Pings, as the paths, parameters and bodies of Healthchecks.io express them."""

import codecs
import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import NamedTuple

from pydantic_core import to_json

from chalicelib.domain.errors import BadInput

MAX_NAME_CHARS = 200
MAX_OUTPUT_BYTES = 100 * 1024
"""How much of a body is kept."""
MAX_ENCODED_BYTES = 150 * 1024
"""Limit of the kept text as JSON, in which control characters and quotation marks are longer."""
MAX_LOG_LINES = 100
"""Log lines of one ping. Lines of longer outputs share them."""
MAX_MESSAGE_CHARS = 1_000
MAX_EXIT_STATUS = 255
DEFAULT_NODE = "ping"

NAME_PATTERN = rf"^[^?*/\u0000-\u001f\u007f]{{1,{MAX_NAME_CHARS}}}$"
RID_PATTERN = r"^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
SIGNAL_PATTERN = r"^(?:start|fail|log|[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$"
_NAME = re.compile(NAME_PATTERN)
_EXIT_STATUS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


class Action(Enum):
    """What a ping reports."""

    START = "start"
    SUCCESS = "success"
    FAILURE = "fail"
    LOG = "log"


class Signal(NamedTuple):
    """The last part of a ping's path."""

    action: Action
    exit_status: int | None = None


SUCCESS = Signal(Action.SUCCESS)
"""A path that ends with the name."""


@dataclass(frozen=True, slots=True)
class Output:
    """The part of a body that is kept."""

    lines: tuple[str, ...] = ()
    last_line: str = ""
    """The last line of the whole body that is not blank, shortened if it is long."""


@dataclass(frozen=True, slots=True)
class Ping:
    """A signal of a job."""

    name: str
    """The type of the job."""
    signal: Signal
    node: str | None = None
    """None: any node if a run is looked up, or else `DEFAULT_NODE`."""
    rid: str | None = None
    """The client's id of the run."""
    may_create: bool = False
    """Whether the name may be new."""
    body: bytes = b""

    @property
    def digest(self) -> str:
        """Equal for equal pings."""
        parts = (self.name, *self.signal, self.node, self.rid, self.may_create, hashlib.sha256(self.body).hexdigest())
        return hashlib.sha256(to_json([str(part) for part in parts])).hexdigest()[:32]


def parse_signal(text: str) -> Signal:
    """The signal with this name, or exit status. Raises `BadInput`."""
    if text in ("start", "fail", "log"):
        return Signal(Action(text))
    if _EXIT_STATUS.fullmatch(text) and int(text) <= MAX_EXIT_STATUS:
        return Signal(Action.FAILURE if int(text) else Action.SUCCESS, int(text))
    raise BadInput(
        f"a ping ends with the name, /start, /fail, /log or an exit status from 0 to {MAX_EXIT_STATUS},"
        f" not with '/{text[:80]}'"
    )


def check_name(name: str, what: str) -> str:
    """Return the name of a job type or node. Raises `BadInput` if it cannot be part of an event's type."""
    if _NAME.fullmatch(name) is None:
        raise BadInput(f"{what} has 1 to {MAX_NAME_CHARS} characters, without '?', '*', '/' and control characters")
    return name


def read_output(body: bytes) -> Output:
    """The beginning of a body as text. Bytes that are not UTF-8 are replaced."""
    is_cut = len(body) > MAX_OUTPUT_BYTES
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(body[:MAX_OUTPUT_BYTES], final=not is_cut)
    while (size_bytes := len(to_json(text))) > MAX_ENCODED_BYTES:
        text, is_cut = text[: len(text) * MAX_ENCODED_BYTES // size_bytes], True
    lines = text.replace("\r\n", "\n").rstrip().split("\n") if text.strip() else []
    per_entry = ceil(len(lines) / MAX_LOG_LINES) or 1
    entries = ["\n".join(lines[place : place + per_entry]) for place in range(0, len(lines), per_entry)]
    if is_cut:
        entries.append(f"[cut: the first {len(text.encode()):,} of {len(body):,} bytes are kept]")
    return Output(tuple(entries), _last_line(body))


def _last_line(body: bytes) -> str:
    # A character has at most 4 bytes. The tail may begin within one, which only matters if it is a single long line.
    tail = body.rstrip()[-4 * MAX_MESSAGE_CHARS :].decode(errors="replace")
    return tail.rpartition("\n")[2].strip()[-MAX_MESSAGE_CHARS:]
