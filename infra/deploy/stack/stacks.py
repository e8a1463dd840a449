"""A CloudFormation stack: preview, execute and follow its changes."""

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from infra.deploy.stack import clients

POLL_INTERVAL_S: Final = 2.0
EMULATOR_POLL_INTERVAL_S: Final = 0.1
STATEFUL_TYPES: Final = ("AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::S3::Bucket", "AWS::ApiGateway::RestApi")
"""Types whose resources hold events, messages or the API's address."""
CAPABILITIES: Final = ("CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND")
NO_CHANGES: Final = ("didn't contain changes", "No updates are to be performed")
"""Texts with which CloudFormation rejects a change set without changes."""


class StackFailed(Exception):
    """CloudFormation rejected or failed an operation. The message says why."""


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """How a change set affects one resource."""

    action: str
    name: str
    kind: str
    replacement: str

    @property
    def is_destructive(self) -> bool:
        """Whether the change may delete data or change the API's address."""
        return self.kind in STATEFUL_TYPES and (self.action == "Remove" or self.replacement in ("True", "Conditional"))

    def __str__(self) -> str:
        replacement = {"True": "REPLACED", "Conditional": "possibly REPLACED"}.get(self.replacement, "")
        return f"{self.action:<8} {self.kind:<34} {self.name}  {replacement}".rstrip()


class Stack:
    """One stack, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._cloudformation = clients.client("cloudformation")
        self._poll_interval_s = EMULATOR_POLL_INTERVAL_S if clients.endpoint() else POLL_INTERVAL_S

    def description(self) -> Mapping[str, Any] | None:
        """The stack as CloudFormation describes it. None if it does not exist."""
        try:
            stack = self._cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        # REVIEW_IN_PROGRESS: the stack's first change set was never executed.
        return None if stack["StackStatus"] in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE") else dict(stack)

    def parameters(self) -> dict[str, str]:
        stack = self.description() or {}
        return {
            parameter["ParameterKey"]: parameter.get("ParameterValue", "") for parameter in stack.get("Parameters", ())
        }

    def outputs(self) -> dict[str, str]:
        stack = self.description() or {}
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", ())}

    def physical_id(self, logical_id: str) -> str | None:
        try:
            resource = self._cloudformation.describe_stack_resource(StackName=self.name, LogicalResourceId=logical_id)
        except ClientError:
            return None
        return str(resource["StackResourceDetail"]["PhysicalResourceId"])

    def create_change_set(
        self, template_url: str, parameters: Mapping[str, str], template_parameters: frozenset[str]
    ) -> "ChangeSet":
        """Compute the changes. Parameters of the template that are not in `parameters` keep their values."""
        previous = set(self.parameters())
        changed = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
        unchanged = [
            {"ParameterKey": name, "UsePreviousValue": True}
            for name in sorted(template_parameters & previous - set(parameters))
        ]
        name = f"annals-{secrets.token_hex(6)}"
        self._cloudformation.create_change_set(
            StackName=self.name,
            ChangeSetName=name,
            ChangeSetType="UPDATE" if previous or self.description() else "CREATE",
            TemplateURL=template_url,
            Parameters=[*changed, *unchanged],
            Capabilities=list(CAPABILITIES),
        )
        return ChangeSet(self, name, self._changes(name))

    def execute(self, change_set: str) -> Iterator[str]:
        """Execute a change set. Yields a line for each finished resource."""
        last_event = self._last_event()
        self._cloudformation.execute_change_set(StackName=self.name, ChangeSetName=change_set)
        yield from self._follow(last_event, self.name)

    def delete(self) -> Iterator[str]:
        """Delete the stack. Yields a line for each deleted resource."""
        stack = self.description()
        if stack is None:
            return
        last_event = self._last_event()
        self._cloudformation.delete_stack(StackName=self.name)
        # A deleted stack can be described by its id only.
        yield from self._follow(last_event, str(stack["StackId"]))

    def discard(self, change_set: str) -> None:
        """Delete a change set, and the stack too if it was created for this change set."""
        self._cloudformation.delete_change_set(StackName=self.name, ChangeSetName=change_set)
        if self.description() is None:
            self._cloudformation.delete_stack(StackName=self.name)

    def restart_functions(self, reason: str) -> int:
        """Make Lambda start new processes for all functions of the stack. Returns the number of functions.

        Lambda does so after any configuration change. This changes the description to `reason`.
        """
        functions = list(self._functions())
        for name in functions:
            clients.client("lambda").update_function_configuration(FunctionName=name, Description=reason)
        return len(functions)

    def _functions(self) -> Iterator[str]:
        for page in self._cloudformation.get_paginator("list_stack_resources").paginate(StackName=self.name):
            for resource in page["StackResourceSummaries"]:
                if resource["ResourceType"] == "AWS::Lambda::Function":
                    yield resource["PhysicalResourceId"]

    def _changes(self, change_set: str) -> list[ResourceChange]:
        while True:
            page = self._cloudformation.describe_change_set(StackName=self.name, ChangeSetName=change_set)
            if page["Status"] not in ("CREATE_PENDING", "CREATE_IN_PROGRESS"):
                break
            time.sleep(self._poll_interval_s)
        if page["Status"] == "FAILED":
            reason = page.get("StatusReason", "")
            self.discard(change_set)
            if any(text in reason for text in NO_CHANGES):
                return []
            raise StackFailed(reason)
        return list(self._changes_from(change_set, page))

    def _changes_from(self, change_set: str, page: Mapping[str, Any]) -> Iterator[ResourceChange]:
        """The changes of `page` and of all pages after it."""
        while True:
            for item in page.get("Changes", ()):
                change = item["ResourceChange"]
                kind, replacement = change["ResourceType"], change.get("Replacement", "False")
                yield ResourceChange(change["Action"], change["LogicalResourceId"], kind, replacement)
            if not page.get("NextToken"):
                return
            page = self._cloudformation.describe_change_set(
                StackName=self.name, ChangeSetName=change_set, NextToken=page["NextToken"]
            )

    def _follow(self, last_event: str | None, stack: str) -> Iterator[str]:
        """Yield a line for each finished resource until the stack is at rest."""
        reasons: list[str] = []
        while True:
            status = self._cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
            for event in self._events_after(last_event, stack):
                last_event = event["EventId"]
                if event["ResourceStatus"].endswith("_FAILED"):
                    reasons.append(
                        f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', 'no reason given')}"
                    )
                if not event["ResourceStatus"].endswith("_IN_PROGRESS"):
                    yield f"{event['ResourceStatus']:<24} {event['LogicalResourceId']}"
            if not status.endswith("_IN_PROGRESS"):
                break
            time.sleep(self._poll_interval_s)
        if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE"):
            raise StackFailed("\n".join([f"the stack {self.name} is {status}", *reasons]))

    def _events_after(self, last_event: str | None, stack: str) -> list[Mapping[str, Any]]:
        """Events after `last_event`, oldest first."""
        new: list[Mapping[str, Any]] = []
        for page in self._cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack):
            for event in page["StackEvents"]:
                if event["EventId"] == last_event:
                    return new[::-1]
                new.append(event)
        return new[::-1]

    def _last_event(self) -> str | None:
        events = self._cloudformation.describe_stack_events(StackName=self.name)["StackEvents"]
        return str(events[0]["EventId"]) if events else None


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Changes that CloudFormation has computed, to be executed or discarded."""

    stack: Stack
    name: str
    changes: list[ResourceChange]

    def execute(self) -> Iterator[str]:
        return self.stack.execute(self.name)

    def discard(self) -> None:
        self.stack.discard(self.name)
