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
FAILED_CREATION: Final = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED")
"""Statuses of a stack that was never created completely. CloudFormation can only delete it."""
REMAINS: Final = ("CREATE_COMPLETE", "DELETE_SKIPPED", "DELETE_FAILED")
"""Last statuses of resources that exist after a failed creation."""
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
            stack = self._describe()
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        # REVIEW_IN_PROGRESS: the stack's first change set was never executed.
        return None if stack["StackStatus"] in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE") else dict(stack)

    def is_failed_creation(self) -> bool:
        """Whether the stack exists, but was never created completely."""
        status = (self.description() or {}).get("StackStatus")
        if status != "DELETE_FAILED":
            return status in FAILED_CREATION
        # Old events expire. Only a complete history proves that the creation did not succeed.
        statuses = {event["ResourceStatus"] for event in self._events() if event["LogicalResourceId"] == self.name}
        return "CREATE_IN_PROGRESS" in statuses and "CREATE_COMPLETE" not in statuses

    def remains(self) -> dict[str, str]:
        """Physical ids by logical id of the resources that a failed creation made and that still exist."""
        latest: dict[str, Mapping[str, Any]] = {}
        failed = set()
        for event in self._events():
            latest.setdefault(event["LogicalResourceId"], event)
            if event["ResourceStatus"] == "CREATE_FAILED":
                # It may exist, but then it belongs to another stack.
                failed.add(event["LogicalResourceId"])
        return {
            name: str(event["PhysicalResourceId"])
            for name, event in latest.items()
            if event["ResourceStatus"] in REMAINS and name not in failed
        }

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
        is_new = self.description() is None
        self._cloudformation.create_change_set(
            StackName=self.name,
            ChangeSetName=name,
            **({"ChangeSetType": "CREATE", "OnStackFailure": "DELETE"} if is_new else {"ChangeSetType": "UPDATE"}),
            TemplateURL=template_url,
            Parameters=[*changed, *unchanged],
            Capabilities=list(CAPABILITIES),
        )
        return ChangeSet(self, name, self._changes(name))

    def execute(self, change_set: str) -> Iterator[str]:
        """Execute a change set. Yields a line for each finished resource."""
        last_event = self._last_event()
        # A stack whose creation fails is deleted. A deleted stack can be described by its id only.
        stack_id = self._describe()["StackId"]
        # Otherwise retained resources would stay after a failed creation, and block the next one.
        self._cloudformation.execute_change_set(
            StackName=self.name, ChangeSetName=change_set, RetainExceptOnCreate=True
        )
        yield from self._follow(last_event, stack_id, ("CREATE_COMPLETE", "UPDATE_COMPLETE"))

    def delete(self) -> Iterator[str]:
        """Delete the stack. Yields a line for each deleted resource."""
        stack = self.description()
        if stack is None:
            return
        last_event = self._last_event()
        self._cloudformation.delete_stack(StackName=self.name)
        yield from self._follow(last_event, str(stack["StackId"]), ("DELETE_COMPLETE",))

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

    def _describe(self) -> Mapping[str, Any]:
        stack: Mapping[str, Any] = self._cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]
        return stack

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

    def _follow(self, last_event: str | None, stack: str, goals: tuple[str, ...]) -> Iterator[str]:
        """Yield a line for each finished resource until the stack is at rest. Raises unless it reached a goal."""
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
        if status not in goals:
            raise StackFailed("\n".join([f"the stack {self.name} is {status}", *reasons]))

    def _events_after(self, last_event: str | None, stack: str) -> list[Mapping[str, Any]]:
        """Events after `last_event`, oldest first."""
        new: list[Mapping[str, Any]] = []
        for event in self._events(stack):
            if event["EventId"] == last_event:
                break
            new.append(event)
        return new[::-1]

    def _last_event(self) -> str | None:
        return next((str(event["EventId"]) for event in self._events()), None)

    def _events(self, stack: str | None = None) -> Iterator[Mapping[str, Any]]:
        """The events of the stack with this id, by default of the one with this name. Newest first."""
        paginator = self._cloudformation.get_paginator("describe_stack_events")
        for page in paginator.paginate(StackName=stack or self.name):
            yield from page["StackEvents"]


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
