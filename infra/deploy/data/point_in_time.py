"""The log's table as it was at a point in time: another table, that DynamoDB makes beside it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from chalicelib.adapters.aws.protocol import Refusal

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls

LOOK_S: Final = 5.0
"""How often DynamoDB is asked whether it is done."""
LOOKS_A_LINE: Final = 12
"""DynamoDB does not say how far it is: a line a minute shows that we are still here."""


class NotRestored(Exception):
    """There is no table to restore from; the message says why."""


def restored_table(client: Calls, table: str, to: datetime, pause: Callable[[float], None]) -> str:
    """The name of a table with all that `table` held at `to`; if an earlier run began to make it, that one."""
    name = f"{table}-restored-{to:%Y%m%dT%H%M%SZ}"
    wanted = {"SourceTableName": table, "TargetTableName": name, "RestoreDateTime": to.timestamp()}
    try:
        client.call("RestoreTableToPointInTime", wanted)
    except Refusal as refusal:
        if refusal.code not in ("TableAlreadyExistsException", "TableInUseException"):
            raise
        print(f"There is a table {name} from an earlier run.", flush=True)
    else:
        print(f"DynamoDB makes the table {name}; that may take minutes or hours.", flush=True)
    await_active(client, name, pause)
    return name


def await_active(client: Calls, table: str, pause: Callable[[float], None]) -> None:
    """Wait until a table can be read; a line now and then."""
    looks = 0
    while (status := client.call("DescribeTable", {"TableName": table})["Table"]["TableStatus"]) == "CREATING":
        pause(LOOK_S)
        looks += 1
        if looks % LOOKS_A_LINE == 0:
            print(f"  {table} is being made since {looks // LOOKS_A_LINE} min", flush=True)
    if status not in ("ACTIVE", "UPDATING"):
        raise NotRestored(f"the table {table} is {status}")


def check_is_log(client: Calls, table: str, live: str) -> None:
    """Refuse a table that is the log's own, or none of a log."""
    if table == live:
        raise NotRestored(f"{table} is the log's own table: name the one that was restored")
    found, wanted = (client.call("DescribeTable", {"TableName": name})["Table"]["KeySchema"] for name in (table, live))
    if found != wanted:
        raise NotRestored(f"{table} is no table of a log")
