"""Restores the log's table to a point in time, as a second table beside it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from chalicelib.adapters.aws.protocol import ServiceError

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient

POLL_INTERVAL_S: Final = 5.0
POLLS_PER_LINE: Final = 12
"""DynamoDB reports no progress, so a line per minute shows that the command is still waiting."""


class UnusableTable(Exception):
    """A table cannot be restored from. The message says why."""


def restore_table(client: ServiceClient, table: str, to: datetime, pause: Callable[[float], None]) -> str:
    """Have DynamoDB restore `table` as of `to` into a new table. Returns its name.

    Reuses the table if an earlier run created it.
    """
    name = f"{table}-restored-{to:%Y%m%dT%H%M%SZ}"
    params = {"SourceTableName": table, "TargetTableName": name, "RestoreDateTime": to.timestamp()}
    try:
        client.call("RestoreTableToPointInTime", params)
    except ServiceError as error:
        if error.code not in ("TableAlreadyExistsException", "TableInUseException"):
            raise
        print(f"Using the table {name} from an earlier run.", flush=True)
    else:
        print(f"DynamoDB is creating the table {name}. This may take minutes or hours.", flush=True)
    wait_until_active(client, name, pause)
    return name


def wait_until_active(client: ServiceClient, table: str, pause: Callable[[float], None]) -> None:
    """Wait until a table can be read. Prints a line per minute."""
    polls = 0
    while (status := client.call("DescribeTable", {"TableName": table})["Table"]["TableStatus"]) == "CREATING":
        pause(POLL_INTERVAL_S)
        polls += 1
        if polls % POLLS_PER_LINE == 0:
            print(f"  {table}: creating for {polls // POLLS_PER_LINE} min", flush=True)
    if status not in ("ACTIVE", "UPDATING"):
        raise UnusableTable(f"the table {table} is {status}")


def check_restore_source(client: ServiceClient, table: str, live: str) -> None:
    """Raise `UnusableTable` for the live table itself and for a table with other keys than a log's."""
    if table == live:
        raise UnusableTable(f"{table} is the live log table: give the name of the restored table")
    source_keys, live_keys = (
        client.call("DescribeTable", {"TableName": name})["Table"]["KeySchema"] for name in (table, live)
    )
    if source_keys != live_keys:
        raise UnusableTable(f"{table} is not a log table: its key schema differs from {live}")
