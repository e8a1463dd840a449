"""A stage with real tables, for tests of the maintenance commands."""

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
from chalicelib.domain.organizations.organization import inbox_log
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import EventSeq, NonEmpty
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.wiring import Components
from infra.deploy.build.package import ROOT
from infra.deploy.data.commit_items import scan_commits
from infra.deploy.data.point_in_time import restore_table
from infra.deploy.stack.stage import Stage

if TYPE_CHECKING:
    from chalicelib.adapters.aws.protocol import ServiceClient
    from chalicelib.adapters.dynamodb.items import Item

TEMPLATES = ROOT / "infra" / "template"
SOME_TIME = datetime(2026, 11, 16, 10, tzinfo=UTC)
OUTPUTS = {"LogTableName": "LogTable", "ViewsTableName": "ViewsTable", "OutboxQueueUrl": "OutboxQueue"}


class StageUnderTest:
    """A stage with actions and queries for tests."""

    def __init__(self, stage: Stage, client: ServiceClient) -> None:
        self.stage = stage
        self.client = client

    @cached_property
    def components(self) -> Components:
        """Annals with caches. Tests that change tables directly create a new one."""
        return self.stage.components()

    def organization(self, name: str, commits: int) -> int:
        """Create an organization with commits of one to three events. Returns its server."""
        components = self.components
        components.log.organizations.create(name)
        server = components.log.organizations.server(name)
        for number in range(commits):
            self.publish(server, f"/{name}/{number}", events=1 + number % 3, components=components)
        return server

    def publish(self, server: int, key: str, events: int = 1, components: Components | None = None) -> int:
        """Append a commit, by default in a new process without caches. Returns its session."""
        event = NewEvent(type=("job", "started"), key=key)
        outcome = (components or self.stage.components()).log.publisher.publish(server, [event] * events)
        assert isinstance(outcome, Appended)
        return outcome.commit.session

    def project(self, *servers: int) -> None:
        components = self.components
        for server in servers:
            kept = components.log.retention.boundary(server).head
            catch_up(projector(components.stores.views), server, components.stores.log, components.stores.views, kept)

    def restore_backup(self) -> str:
        """Restore the log as of now to a new table. ministack ignores the point in time."""
        return restore_table(self.client, self.stage.log_table, SOME_TIME, _no_wait)

    def lose(self, server: int, sessions: Sequence[int]) -> None:
        """Delete commits directly from the table."""
        for session in sessions:
            self.client.call("DeleteItem", {"TableName": self.stage.log_table, "Key": commit_key(server, session)})

    def commits(self) -> dict[tuple[int, int], Item]:
        """All items of the log table by server and session."""
        items = self._items(self.stage.log_table)
        return {(int(item[SERVER]["N"]), int(item[SESSION]["N"])): item for item in items}

    def sessions(self, server: int) -> list[int]:
        """The stored sessions of a log."""
        return sorted(session for log, session in self.commits() if log == server)

    def views(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """All items of the views table by view and item."""
        items = self._items(self.stage.views_table)
        return {(item["view"]["S"], item["item"]["S"]): _attributes(item) for item in items}

    def follow(self, server: int, after: int | None, *types: str) -> EventSeq:
        """Read as a new process would."""
        components = self.stage.components()
        selection = Selection(types=tuple((subtype, "*") for subtype in types)) if types else Selection()
        return long_poll_blocking(
            FeedQuery(server, selection, after),
            components.log.reader,
            components.log.notifier,
            components.log.retention,
        )

    def keys(self, server: int, *types: str) -> list[str | None]:
        """The keys of all stored events."""
        events = self.follow(server, None, *types)
        return [json.loads(wire)["key"] for wire in events.texts] if isinstance(events, NonEmpty) else []

    def put(self, commit: Commit, expires_s: int | None = None) -> None:
        """Write a commit directly to the table, replacing any in its session."""
        item = item_from_commit(commit, expires_s)
        self.client.call("PutItem", {"TableName": self.stage.log_table, "Item": item})

    def _items(self, table: str) -> Iterator[Item]:
        return chain.from_iterable(scan_commits(self.client, table))


class Stopped(Exception):
    """The test stopped the command."""


class InterceptedClient:
    """A client that calls `act` before each call of `operation`."""

    def __init__(self, client: ServiceClient, operation: str, act: Callable[[], object]) -> None:
        self._client = client
        self._operation = operation
        self._act = act

    def call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if operation == self._operation:
            self._act()
        return self._client.call(operation, params)


def stop_after(client: ServiceClient, operation: str, times: int) -> ServiceClient:
    """A client that raises `Stopped` after `times` calls of `operation`."""
    remaining = iter(range(times))

    def stop() -> None:
        if next(remaining, None) is None:
            raise Stopped

    return InterceptedClient(client, operation, stop)


def both_logs(server: int) -> tuple[int, int]:
    """The logs of an organization and of its inbox."""
    return server, inbox_log(server)


def small_template() -> str:
    """A template with tables and a function, as far as the maintenance commands need it."""
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


def _attributes(item: Item) -> tuple[str, ...]:
    return tuple(f"{name}={item[name]}" for name in sorted(item.keys() - {"view", "item"}))


def _no_wait(_: float) -> None:
    """Do not wait."""
