"""Resolves the template's intrinsic functions and policies, as CloudFormation would."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.deploy.build.package import ROOT, load_template
from tests.deploy.permissions import ANYTHING, Permission, Place

POLICIES = ROOT / ".chalice"
HUB = "hub"
"""The role of the hub, which answers the requests of all API functions with the same code."""
STREAM = "stream/2026-11-16T00:00:00.000"

LOGGING_ACTIONS = ("logs:CreateLogStream", "logs:PutLogEvents")
TRACING_ACTIONS = ("xray:PutTraceSegments", "xray:PutTelemetryRecords")
STREAM_ACTIONS = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams")
QUEUE_ACTIONS = ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
SEND_ACTIONS = ("sqs:SendMessage",)


@dataclass(frozen=True)
class Stack:
    """A stack of our template with its parameters."""

    name: str
    place: Place
    parameters: Mapping[str, str] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    """URLs of queues by logical id. Set when the queues are created."""
    template: Mapping[str, Any] = field(default_factory=load_template)

    def environment(self) -> dict[str, str]:
        """The functions' environment variables, except conditional ones."""
        functions = self.template["Globals"]["Function"], self.template["Resources"]["Bearer"]["Properties"]
        variables = {name: value for one in functions for name, value in one["Environment"]["Variables"].items()}
        return {name: self.resolve(value) for name, value in variables.items() if "Fn::If" not in value}

    def allowed_permissions(self, function: str) -> set[Permission]:
        """The permissions in a function's policy, and in the policies that the template adds to its role."""
        return {
            Permission(action, self.resolve(resource))
            for statement in statements(function)
            for action in statement["Action"]
            for resource in statement["Resource"]
        } | set(self._added_permissions("HubTaskRole" if function == HUB else f"{logical_id(function)}Role"))

    def lambda_permissions(self, function: str) -> set[Permission]:
        """Permissions that Lambda needs to run a function.

        Lambda writes its log, traces it, and reads and cleans up the stream or queue that invokes it. The hub is not a
        function, and ECS writes its log with another role.
        """
        if function == HUB:
            return set()
        group = self.place.arn("logs", f"log-group:{self._log_group(function)}:log-stream:a-stream")
        permissions = {Permission(action, group) for action in LOGGING_ACTIONS} | {
            Permission(action, ANYTHING) for action in TRACING_ACTIONS
        }
        return permissions.union(*map(self._mapping_permissions, self._mappings(function)))

    def resolve(self, value: Any) -> str:
        """Evaluate an intrinsic function."""
        match value:
            case {"Ref": name}:
                return self._ref(name)
            case {"Fn::GetAtt": [name, attribute]}:
                return self._attribute(name, attribute)
            case {"Fn::Sub": text}:
                return re.sub(r"\$\{([^}]+)\}", lambda match: self._substitute(match[1]), text)
            case {"Fn::Join": [",", {"Ref": name}]}:
                return self._ref(name)
            case str():
                return value
        raise NotImplementedError(f"the test cannot resolve {value}")

    def resource_name(self, name: str) -> str:
        """The physical name of a table or queue."""
        properties = self.template["Resources"][name]["Properties"]
        return self.resolve(properties.get("QueueName", {"Fn::Sub": f"${{AWS::StackName}}-{name}"}))

    def _added_permissions(self, role: str) -> Iterator[Permission]:
        """Their resources are parameters with lists of ARNs."""
        for resource in self.template["Resources"].values():
            if resource.get("Type") == "AWS::IAM::Policy" and {"Ref": role} in resource["Properties"]["Roles"]:
                for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                    arns = filter(None, self.resolve(statement["Resource"]).split(","))
                    yield from (Permission(action, arn) for arn in arns for action in statement["Action"])

    def _log_group(self, function: str) -> str:
        logging = self.template["Resources"][logical_id(function)]["Properties"]["LoggingConfig"]
        group = self.template["Resources"][logging["LogGroup"]["Ref"]]
        return self.resolve(group["Properties"]["LogGroupName"])

    def _mappings(self, function: str) -> Iterator[Mapping[str, Any]]:
        for resource in self.template["Resources"].values():
            if resource.get("Type") == "AWS::Lambda::EventSourceMapping":
                properties = resource["Properties"]
                if properties["FunctionName"] == {"Ref": logical_id(function)}:
                    yield properties

    def _mapping_permissions(self, mapping: Mapping[str, Any]) -> set[Permission]:
        source = self.resolve(mapping["EventSourceArn"])
        actions = STREAM_ACTIONS if STREAM in source else QUEUE_ACTIONS
        permissions = {Permission(action, source) for action in actions}
        if "DestinationConfig" in mapping:
            destination = self.resolve(mapping["DestinationConfig"]["OnFailure"]["Destination"])
            permissions |= {Permission(action, destination) for action in SEND_ACTIONS}
        return permissions

    def _substitute(self, name: str) -> str:
        resource, _, attribute = name.partition(".")
        return self._attribute(resource, attribute) if attribute else self._ref(name)

    def _ref(self, name: str) -> str:
        pseudo = {
            "AWS::StackName": self.name,
            "AWS::Partition": "aws",
            "AWS::Region": self.place.region,
            "AWS::AccountId": self.place.account,
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.template["Parameters"]:
            return self.parameters.get(name, str(self.template["Parameters"][name]["Default"]))
        return self.urls[name] if name in self.urls else self.resource_name(name)

    def _attribute(self, name: str, attribute: str) -> str:
        match self.template["Resources"][name]["Type"], attribute:
            case "AWS::DynamoDB::Table", "Arn":
                return self.place.arn("dynamodb", f"table/{self.resource_name(name)}")
            case "AWS::DynamoDB::Table", "StreamArn":
                return self.place.arn("dynamodb", f"table/{self.resource_name(name)}/{STREAM}")
            case "AWS::SQS::Queue", "Arn":
                return self.place.arn("sqs", self.resource_name(name))
        raise NotImplementedError(f"the test cannot resolve {name}.{attribute}")


def logical_id(function: str) -> str:
    """The function's id in the template."""
    return "APIHandler" if function == "api_handler" else function.capitalize()


def statements(function: str) -> list[dict[str, Any]]:
    """The statements of a function's policy, or of the hub's."""
    if function == HUB:
        (policy,) = load_template()["Resources"]["HubTaskRole"]["Properties"]["Policies"]
        document = policy["PolicyDocument"]
    else:
        document = json.loads((POLICIES / f"policy-{function}.json").read_text())
    found: list[dict[str, Any]] = document["Statement"]
    return found
