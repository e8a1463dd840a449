"""A data directory as a server leaves it, and all that can happen to its files."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from chalicelib.domain.log.append import Append
from chalicelib.domain.organizations.organization import DIRECTORY
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.settings import Settings
from chalicelib.wiring import Annals, embedded
from tests.builders import a_text, noise

PAGE = 4096
COMMITS = 60
ACME, OTHER = 1, 2
SESSIONS = 2**40


def parts_of(data_dir: Path) -> Annals:
    """The parts of a server, without its processes."""
    return embedded(Settings.from_environment({"DATA_DIR": str(data_dir), "JWT_KEY": "k" * 40}))


def fill(data_dir: Path) -> None:
    """Two organizations with commits of a kilobyte or two, and consumers that have seen all of them."""
    parts = parts_of(data_dir)
    for name in ("acme", "other"):
        parts.organizations.create(name)
    for number in range(COMMITS):
        texts = (a_text(f"/job/{number % 7}"), a_text(f"/{noise(1_500, number)}"))
        parts.appender.append(Append(ACME, texts, f"a{number}", idempotency_key=f"k{number}"))
        parts.appender.append(Append(OTHER, texts[:1], f"o{number}"))
    catch_up_all(parts)
    parts.close()


def catch_up_all(parts: Annals) -> None:
    """Do what the pump does."""
    for server in (DIRECTORY, *(one.server for one in parts.organizations.all())):
        catch_up(projector(parts.views), server, parts.log, parts.views)
        if server != DIRECTORY:
            catch_up(parts.observing.consumer, server, parts.log, parts.progress)


Damage = Callable[[Path], None]


def sql(*statements: str, file: str = "annals.sqlite") -> Damage:
    """Somebody had a better idea of what is in the tables."""

    def damage(data_dir: Path) -> None:
        with sqlite3.connect(data_dir / file) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    return damage


def overwritten(start: int, content: bytes, file: str = "annals.sqlite") -> Damage:
    """Other bytes from there on; a negative start counts from the middle."""

    def damage(data_dir: Path) -> None:
        path = data_dir / file
        with path.open("r+b") as opened:
            opened.seek(start if start >= 0 else path.stat().st_size // PAGE // 2 * PAGE)
            opened.write(content)

    return damage


def truncated(data_dir: Path) -> None:
    """The second half is missing."""
    path = data_dir / "annals.sqlite"
    os.truncate(path, path.stat().st_size // 2 + 100)


def replaced(content: bytes, file: str = "annals.sqlite") -> Damage:
    """Something else has its name."""

    def damage(data_dir: Path) -> None:
        (data_dir / file).write_bytes(content)

    return damage


def of_another_application(data_dir: Path) -> None:
    """A database, but not ours."""
    (data_dir / "annals.sqlite").unlink()
    sql("CREATE TABLE bookmarks (url TEXT)", "PRAGMA user_version = 1")(data_dir)


ZEROED = overwritten(-1, bytes(3 * PAGE))
NO_VIEWS = replaced(b"x" * PAGE, "views.sqlite")
NOT_A_DATABASE = replaced(b"Dear diary, " * 1000)
BEHIND = sql(f"DELETE FROM log WHERE place > {ACME * SESSIONS + 50} AND place < {OTHER * SESSIONS}")
NEWER = sql("PRAGMA user_version = 9")


def row(session: int, server: int = ACME) -> str:
    """The condition for one commit."""
    return f"place = {server * SESSIONS + session}"
