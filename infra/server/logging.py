"""Logging of the server and its workers. Only the first line of a record starts at the margin."""

import logging


class IndentingFormatter(logging.Formatter):
    """Indents all lines after the first and escapes control characters.

    Text from clients can therefore not forge a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        return "\n    ".join(_escape(line) for line in super().format(record).splitlines())


def configure(name: str = "") -> None:
    """Log to standard error. `name` prefixes the messages of a worker."""
    # If a record cannot be written, perhaps because the disk is full, do not write even more.
    logging.raiseExceptions = False
    handler = logging.StreamHandler()
    handler.setFormatter(IndentingFormatter(f"%(asctime)s %(levelname)s {name and f'{name}: '}%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _escape(line: str) -> str:
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in line)
