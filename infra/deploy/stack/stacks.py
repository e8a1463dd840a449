"""A stack of CloudFormation: what a template would change in it, and the change itself."""

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from infra.deploy.stack import clients

LOOK_S: Final = 2.0
"""How often AWS is asked how far it is."""
MINISTACK_LOOK_S: Final = 0.1
PRECIOUS: Final = ("AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::S3::Bucket", "AWS::ApiGateway::RestApi")
CAPABILITIES: Final = ("CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND")
NOTHING: Final = ("didn't contain changes", "No updates are to be performed")


class Failed(Exception):
    """CloudFormation could not do it; the message says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one resource."""

    action: str
    name: str
    kind: str
    replacement: str

    @property
    def endangers(self) -> bool:
        """Whether something that people rely on would be gone, perhaps: events, messages, the API's address."""
        return self.kind in PRECIOUS and (self.action == "Remove" or self.replacement in ("True", "Conditional"))

    def __str__(self) -> str:
        """A line for people."""
        how = {"True": "REPLACED", "Conditional": "perhaps REPLACED"}.get(self.replacement, "")
        return f"{self.action:<8} {self.kind:<34} {self.name}  {how}".rstrip()


class Stack:
    """One stack, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._cloudformation = clients.client("cloudformation")
        self._look_s = MINISTACK_LOOK_S if clients.endpoint() else LOOK_S

    def description(self) -> Mapping[str, Any] | None:
        """What AWS says of it; None if there is no such stack."""
        try:
            found = self._cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]
        except ClientError as refusal:
            if "does not exist" in str(refusal):
                return None
            raise
        # A stack whose first change set was never executed is none.
        return None if found["StackStatus"] in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE") else dict(found)

    def parameters(self) -> dict[str, str]:
        """What it was deployed with."""
        found = self.description() or {}
        return {one["ParameterKey"]: one.get("ParameterValue", "") for one in found.get("Parameters", ())}

    def outputs(self) -> dict[str, str]:
        """What it tells."""
        found = self.description() or {}
        return {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}

    def propose(self, template_url: str, parameters: Mapping[str, str], known: frozenset[str]) -> "Proposal":
        """What would change; parameters that are not given stay as they are."""
        before = set(self.parameters())
        given = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
        kept = [{"ParameterKey": name, "UsePreviousValue": True} for name in sorted(known & before - set(parameters))]
        change_set = f"annals-{secrets.token_hex(6)}"
        self._cloudformation.create_change_set(
            StackName=self.name,
            ChangeSetName=change_set,
            ChangeSetType="UPDATE" if before or self.description() else "CREATE",
            TemplateURL=template_url,
            Parameters=[*given, *kept],
            Capabilities=list(CAPABILITIES),
        )
        return Proposal(self, change_set, self._changes(change_set))

    def execute(self, change_set: str) -> Iterator[str]:
        """Make the change; a line for every resource that is done with."""
        began = self._last_event()
        self._cloudformation.execute_change_set(StackName=self.name, ChangeSetName=change_set)
        yield from self._followed(began, self.name)

    def delete(self) -> Iterator[str]:
        """Delete it; a line for every resource that is done with."""
        found = self.description()
        if found is None:
            return
        began = self._last_event()
        self._cloudformation.delete_stack(StackName=self.name)
        yield from self._followed(began, str(found["StackId"]))

    def discard(self, change_set: str) -> None:
        """Forget what was proposed, and the stack too if it was to be its first."""
        self._cloudformation.delete_change_set(StackName=self.name, ChangeSetName=change_set)
        if self.description() is None:
            self._cloudformation.delete_stack(StackName=self.name)

    def resource(self, name: str) -> str | None:
        """The physical id of a resource."""
        try:
            found = self._cloudformation.describe_stack_resource(StackName=self.name, LogicalResourceId=name)
        except ClientError:
            return None
        return str(found["StackResourceDetail"]["PhysicalResourceId"])

    def _changes(self, change_set: str) -> list[Change]:
        while True:
            found = self._cloudformation.describe_change_set(StackName=self.name, ChangeSetName=change_set)
            if found["Status"] not in ("CREATE_PENDING", "CREATE_IN_PROGRESS"):
                break
            time.sleep(self._look_s)
        if found["Status"] == "FAILED":
            why = found.get("StatusReason", "")
            self.discard(change_set)
            if any(text in why for text in NOTHING):
                return []
            raise Failed(why)
        return list(self._pages(change_set, found))

    def _pages(self, change_set: str, page: Mapping[str, Any]) -> Iterator[Change]:
        while True:
            for one in page.get("Changes", ()):
                change = one["ResourceChange"]
                kind, replaced = change["ResourceType"], change.get("Replacement", "False")
                yield Change(change["Action"], change["LogicalResourceId"], kind, replaced)
            if not page.get("NextToken"):
                return
            page = self._cloudformation.describe_change_set(
                StackName=self.name, ChangeSetName=change_set, NextToken=page["NextToken"]
            )

    def _followed(self, seen: str | None, stack: str) -> Iterator[str]:
        """Lines until the stack is at rest."""
        reasons: list[str] = []
        while True:
            status = self._cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
            for event in self._events_after(seen, stack):
                seen = event["EventId"]
                if event["ResourceStatus"].endswith("_FAILED"):
                    reasons.append(
                        f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', 'no reason given')}"
                    )
                if not event["ResourceStatus"].endswith("_IN_PROGRESS"):
                    yield f"{event['ResourceStatus']:<24} {event['LogicalResourceId']}"
            if not status.endswith("_IN_PROGRESS"):
                break
            time.sleep(self._look_s)
        if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE"):
            raise Failed("\n".join([f"the stack {self.name} is {status}", *reasons]))

    def _events_after(self, seen: str | None, stack: str) -> list[Mapping[str, Any]]:
        """Events since the one that was seen last, oldest first."""
        new: list[Mapping[str, Any]] = []
        for page in self._cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack):
            for event in page["StackEvents"]:
                if event["EventId"] == seen:
                    return new[::-1]
                new.append(event)
        return new[::-1]

    def _last_event(self) -> str | None:
        found = self._cloudformation.describe_stack_events(StackName=self.name)["StackEvents"]
        return str(found[0]["EventId"]) if found else None


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would change, until it is executed or discarded."""

    stack: Stack
    change_set: str
    changes: list[Change]

    def execute(self) -> Iterator[str]:
        """Make the change."""
        return self.stack.execute(self.change_set)

    def discard(self) -> None:
        """Leave all as it is."""
        self.stack.discard(self.change_set)
