"""The log of the server and of its companions: a record begins at the margin, and what others sent never does."""

import logging


class Margined(logging.Formatter):
    """Lines after a record's first are indented, and what would move a cursor or ring a bell is shown, not done."""

    def format(self, record: logging.LogRecord) -> str:
        """The record, with its failure if it has one."""
        return "\n    ".join(_shown(line) for line in super().format(record).splitlines())


def begin(name: str = "") -> None:
    """Write the process's log to standard error."""
    # What cannot be written, for the disk is full perhaps, is no reason to write more.
    logging.raiseExceptions = False
    handler = logging.StreamHandler()
    handler.setFormatter(Margined(f"%(asctime)s %(levelname)s {name and f'{name}: '}%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _shown(line: str) -> str:
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in line)
