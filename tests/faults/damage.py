"""A data directory with two logs, and ways to damage its files."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from chalicelib.domain.log.append import Append
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local
from tests.builders import a_text, incompressible_text

PAGE = 4096
COMMITS = 60
ACME, OTHER = 1, 2
MAX_SESSIONS = 2**40


def build_components(data_dir: Path) -> Components:
    """The components of a server, without its processes."""
    return build_local(Settings.from_environment({"DATA_DIR": str(data_dir), "JWT_KEY": "k" * 40}))


def fill_data_directory(data_dir: Path) -> None:
    """Write two logs with commits of about 2 KB, and let the consumers catch up."""
    components = build_components(data_dir)
    for name in ("acme", "other"):
        components.log.organizations.create(name)
    for number in range(COMMITS):
        texts = (a_text(f"/job/{number % 7}"), a_text(f"/{incompressible_text(1_500, number)}"))
        components.log.appender.append(Append(ACME, texts, f"a{number}", idempotency_key=f"k{number}"))
        components.log.appender.append(Append(OTHER, texts[:1], f"o{number}"))
    catch_up_all(components)
    components.close()


def catch_up_all(components: Components) -> None:
    """Run the consumers like the consumer worker."""
    for server in (DIRECTORY_SERVER, *(organization.server for organization in components.log.organizations.all())):
        catch_up(components.consumers.projector, server, components.stores.log, components.stores.views)
        if server != DIRECTORY_SERVER:
            catch_up(
                components.notifications.matcher.consumer, server, components.stores.log, components.stores.progress
            )


Damage = Callable[[Path], None]


def run_sql(*statements: str, file: str = "annals.sqlite") -> Damage:
    """Change the tables."""

    def damage(data_dir: Path) -> None:
        with closing(apsw.Connection(str(data_dir / file))) as connection:
            for statement in statements:
                connection.execute(statement)

    return damage


def overwrite(start: int, content: bytes, file: str = "annals.sqlite") -> Damage:
    """Overwrite bytes from `start` on, or from the middle page if it is negative."""

    def damage(data_dir: Path) -> None:
        path = data_dir / file
        with path.open("r+b") as database:
            database.seek(start if start >= 0 else path.stat().st_size // PAGE // 2 * PAGE)
            database.write(content)

    return damage


def truncate(data_dir: Path) -> None:
    """Remove the second half of the log."""
    path = data_dir / "annals.sqlite"
    os.truncate(path, path.stat().st_size // 2 + 100)


def replace_file(content: bytes, file: str = "annals.sqlite") -> Damage:

    def damage(data_dir: Path) -> None:
        (data_dir / file).write_bytes(content)

    return damage


def use_foreign_database(data_dir: Path) -> None:
    """Replace the log by a database of another application."""
    (data_dir / "annals.sqlite").unlink()
    run_sql("CREATE TABLE bookmarks (url TEXT)", "PRAGMA user_version = 1")(data_dir)


ZERO_PAGES = overwrite(-1, bytes(3 * PAGE))
DAMAGE_VIEWS = replace_file(b"x" * PAGE, "views.sqlite")
REPLACE_BY_TEXT = replace_file(b"Dear diary, " * 1000)
DELETE_LAST_COMMITS = run_sql(
    f"DELETE FROM log WHERE place > {ACME * MAX_SESSIONS + 50} AND place < {OTHER * MAX_SESSIONS}"
)
SET_NEWER_FORMAT = run_sql("PRAGMA user_version = 9")


def commit_condition(session: int, server: int = ACME) -> str:
    """The SQL condition for one commit."""
    return f"place = {server * MAX_SESSIONS + session}"
