"""A stage whose tables are real, for tests of what its operator does to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import yaml

from chalicelib.adapters.dynamodb.items import SERVER, SESSION, commit_key, item_from_commit
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.organizations.organization import inbox_of
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import EventSeq, NonEmpty
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.feeds.feed import FeedQuery, follow
from chalicelib.wiring import Annals
from infra.deploy.build.package import ROOT
from infra.deploy.data.commit_items import of_all
from infra.deploy.data.point_in_time import restored_table
from infra.deploy.stack.stage import Stage

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import Calls
    from chalicelib.adapters.dynamodb.items import Item

TEMPLATES = ROOT / "infra" / "template"
SOME_TIME = datetime(2026, 11, 16, 10, tzinfo=UTC)
OUTPUTS = {"LogTableName": "LogTable", "ViewsTableName": "ViewsTable", "OutboxQueueUrl": "OutboxQueue"}


class Operated:
    """A stage, and what tests do with it and see of it."""

    def __init__(self, stage: Stage, client: Calls) -> None:
        self.stage = stage
        self.client = client

    @cached_property
    def parts(self) -> Annals:
        """The product, for what does not remember anything that a test changes behind its back."""
        return self.stage.annals()

    def organization(self, name: str, commits: int) -> int:
        """The number of an organization with so many commits in its log; some have several events."""
        parts = self.parts
        parts.organizations.create(name)
        server = parts.organizations.server(name)
        for number in range(commits):
            self.publish(server, f"/{name}/{number}", events=1 + number % 3, parts=parts)
        return server

    def publish(self, server: int, key: str, events: int = 1, parts: Annals | None = None) -> int:
        """Append a commit, unless parts are given in a new process that remembers nothing; its session."""
        event = NewEvent(type=("job", "started"), key=key)
        found = (parts or self.stage.annals()).publish(server, [event] * events).result()
        assert isinstance(found, Appended)
        return found.commit.session

    def project(self, *servers: int) -> None:
        """Bring the views of logs up to date."""
        parts = self.parts
        for server in servers:
            kept = parts.retention.forgotten(server).before
            catch_up(projector(parts.views), server, parts.log, parts.views, kept)

    def backed_up(self) -> str:
        """The name of a table that DynamoDB made of the log as it is now: ministack knows no other time."""
        return restored_table(self.client, self.stage.log_table, SOME_TIME, _no_time)

    def lose(self, server: int, sessions: Sequence[int]) -> None:
        """Delete commits, as no function could."""
        for session in sessions:
            self.client.call("DeleteItem", {"TableName": self.stage.log_table, "Key": commit_key(server, session)})

    def commits(self) -> dict[tuple[int, int], Item]:
        """All that the log's table holds, by server and session."""
        items = self._items(self.stage.log_table)
        return {(int(item[SERVER]["N"]), int(item[SESSION]["N"])): item for item in items}

    def sessions(self, server: int) -> list[int]:
        """What is kept of a log."""
        return sorted(session for one, session in self.commits() if one == server)

    def views(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """All that the table of views holds, by view and item."""
        items = self._items(self.stage.views_table)
        return {(item["view"]["S"], item["item"]["S"]): _rest(item) for item in items}

    def follow(self, server: int, after: int | None, *types: str) -> EventSeq:
        """What a reader gets from a new process."""
        parts = self.stage.annals()
        selection = Selection(types=tuple((one, "*") for one in types)) if types else Selection()
        return follow(FeedQuery(server, selection, after), parts.present, parts.wake, parts.retention)

    def keys(self, server: int, *types: str) -> list[str | None]:
        """The keys of all events that a reader finds who asks for what is kept."""
        found = self.follow(server, None, *types)
        return [json.loads(wire)["key"] for wire in found.wires] if isinstance(found, NonEmpty) else []

    def put(self, commit: Commit, expires_s: int | None = None) -> None:
        """Have the table keep a commit, whatever it keeps in its place."""
        item = item_from_commit(commit, expires_s)
        self.client.call("PutItem", {"TableName": self.stage.log_table, "Item": item})

    def _items(self, table: str) -> Iterator[Item]:
        return chain.from_iterable(of_all(self.client, table))


class Stopped(Exception):
    """Somebody stopped the command."""


class Interrupted:
    """The port `Calls`: something happens whenever the operation is about to be called."""

    def __init__(self, client: Calls, operation: str, act: Callable[[], object]) -> None:
        self._client = client
        self._operation = operation
        self._act = act

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if operation == self._operation:
            self._act()
        return self._client.call(operation, params)


def stopped_after(client: Calls, operation: str, times: int) -> Calls:
    """The client, with which the operation can be called so often; then the command is stopped."""
    left = iter(range(times))

    def stop() -> None:
        if next(left, None) is None:
            raise Stopped

    return Interrupted(client, operation, stop)


def both_logs(server: int) -> tuple[int, int]:
    """The log of an organization, and that of its inbox."""
    return server, inbox_of(server)


def a_small_template() -> str:
    """The template's tables and a function, as far as commands for operators look at a stack."""
    resources = {
        **yaml.safe_load((TEMPLATES / "tables.yaml").read_text())["Resources"],
        "OutboxQueue": {"Type": "AWS::SQS::Queue"},
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": []}}},
        "Reader": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Runtime": "python3.11",
                "Handler": "index.handler",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Code": {"ZipFile": "def handler(event, context): return None"},
            },
        },
    }
    for table in ("LogTable", "ViewsTable"):
        resources[table]["Properties"]["DeletionProtectionEnabled"] = False
    outputs = {name: {"Value": {"Ref": resource}} for name, resource in OUTPUTS.items()}
    parameters = {"Retention": {"Type": "String", "Default": ""}}
    return json.dumps({"Parameters": parameters, "Resources": resources, "Outputs": outputs})


def _rest(item: Item) -> tuple[str, ...]:
    return tuple(f"{name}={item[name]}" for name in sorted(item.keys() - {"view", "item"}))


def _no_time(_: float) -> None:
    """Pass no time."""
